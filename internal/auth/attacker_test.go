package auth_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const (
	run   = subjects.Run("demo")
	other = subjects.Run("other")
)

// newRuns starts a server with two runs on it; the credentials are for one.
func newRuns(t *testing.T) (*natstest.Secure, *bus.Conn) {
	t.Helper()
	s := natstest.NewSecure(t, run)
	admin := s.Connect(t, "admin")
	for _, r := range []subjects.Run{run, other} {
		must(t, bus.EnsureStreams(t.Context(), admin, r, subjects.StreamOptions{}))
		must(t, bus.CreateRun(t.Context(), admin, &subjects.RunRecord{Run: r, Schema: subjects.SchemaVersion}))
		for subject, n := range map[string]int{r.RolloutSubject("p02"): 3, r.LedgerSubject(): 3, r.WeightsSubject(subjects.EventCommit): 3} {
			for range n {
				_, err := admin.JS().Publish(t.Context(), subject, []byte("good"))
				must(t, err)
			}
		}
	}
	return s, admin
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// client is a NATS client with somebody's credentials and none of our code:
// what an attacker would use.
type client struct {
	*nats.Conn
	name, api string
}

func connect(t *testing.T, s *natstest.Secure, name string) *client {
	t.Helper()
	c := &client{name: filepath.Base(name), api: "$JS.API."}
	id := s.Options(name)
	who, err := id.Identify()
	must(t, err)
	if who.Role == "producer" || who.Role == "engine" || who.Role == "viewer" {
		c.api = subjects.EdgeAPI + "."
	}
	c.Conn, err = nats.Connect(s.URL(), nats.UserCredentials(s.File(name)), nats.RootCAs(filepath.Join(s.Dir, "tls", "ca.pem")),
		nats.CustomInboxPrefix("_INBOX."+c.name), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.MaxReconnects(-1))
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// violation is what the server said to the last thing the client did.
func (c *client) violation(t *testing.T, subject string) error {
	t.Helper()
	must(t, c.FlushTimeout(10*time.Second))
	if err := c.LastError(); err != nil && strings.Contains(strings.ToLower(err.Error()), "permissions violation") && strings.Contains(err.Error(), `"`+subject+`"`) {
		return err
	}
	return nil
}

// publish is nil when the server took the message, whatever became of it.
func (c *client) publish(t *testing.T, subject, reply, data string) error {
	t.Helper()
	must(t, c.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: []byte(data)}))
	return c.violation(t, subject)
}

func (c *client) subscribe(t *testing.T, subject string) error {
	t.Helper()
	sub, err := c.SubscribeSync(subject)
	must(t, err)
	defer sub.Unsubscribe() //nolint:errcheck // it may have been refused
	return c.violation(t, subject)
}

// ask is nil when an answer came.
func (c *client) ask(t *testing.T, subject, data string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	inbox := c.NewInbox()
	sub, err := c.SubscribeSync(inbox)
	must(t, err)
	defer sub.Unsubscribe() //nolint:errcheck // the connection closes anyway
	if err := c.publish(t, subject, inbox, data); err != nil {
		return err
	}
	m, err := sub.NextMsgWithContext(ctx)
	if err == nil && m.Header.Get("Status") == "503" {
		err = nats.ErrNoResponders
	}
	return err
}

// state is what every stream of both runs holds, for before and after.
func state(t *testing.T, admin *bus.Conn) map[string]string {
	t.Helper()
	out := map[string]string{}
	infos := admin.JS().ListStreams(t.Context())
	for i := range infos.Info() {
		i.State.NumSubjects, i.State.Consumers = 0, 0
		b, err := json.Marshal([]any{i.State, i.Config})
		must(t, err)
		out[i.Config.Name] = string(b)
	}
	must(t, infos.Err())
	return out
}

// TestProducer_MayDoNothingElse tries, with a producer's credentials, what the
// credentials are not for: under the names that the core uses and under those
// that its own account does.
func TestProducer_MayDoNothingElse(t *testing.T) {
	s, admin := newRuns(t)
	c := connect(t, s, "producers/p01")
	streams := []string{}
	for _, r := range []subjects.Run{run, other} {
		for _, x := range subjects.Streams() {
			streams = append(streams, r.StreamName(x))
		}
		streams = append(streams, subjects.BucketStream(r.EnginesBucket()), subjects.BucketStream(r.KeysBucket()))
	}
	streams = append(streams, subjects.BucketStream(subjects.RunsBucket))
	before := state(t, admin)
	for what, list := range map[string][]string{
		"read": {"CONSUMER.CREATE.%", "CONSUMER.CREATE.%.x", "CONSUMER.CREATE.%.x.>", "CONSUMER.DURABLE.CREATE.%.x", "CONSUMER.MSG.NEXT.%.x", "CONSUMER.MSG.NEXT.%.producers",
			"CONSUMER.LIST.%", "CONSUMER.NAMES.%"},
		"purge, delete or update": {"STREAM.PURGE.%", "STREAM.DELETE.%", "STREAM.UPDATE.%", "STREAM.CREATE.%", "STREAM.MSG.DELETE.%", "STREAM.SNAPSHOT.%",
			"STREAM.RESTORE.%", "STREAM.PEER.REMOVE.%", "STREAM.LEADER.STEPDOWN.%", "CONSUMER.DELETE.%.producers", "CONSUMER.PAUSE.%.producers", "CONSUMER.RESET.%.producers"},
		"look around": {"STREAM.LIST", "STREAM.NAMES", "INFO", "SERVER.REMOVE", "META.LEADER.STEPDOWN"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, request := range list {
				for _, stream := range streams {
					for _, api := range []string{"$JS.API.", c.api} {
						if subject := api + strings.ReplaceAll(request, "%", stream); c.publish(t, subject, c.NewInbox(), "") == nil {
							t.Errorf("%s is permitted", subject)
						}
					}
				}
			}
		})
	}
	record := subjects.BucketStream(subjects.RunsBucket)
	keys := subjects.BucketStream(run.KeysBucket())
	for what, list := range map[string][]string{
		"read ROLLOUTS": {"DIRECT.GET.hr_demo_ROLLOUTS", "DIRECT.GET.hr_demo_ROLLOUTS.hr.demo.rollouts.p02", "STREAM.MSG.GET.hr_demo_ROLLOUTS", "STREAM.INFO.hr_demo_ROLLOUTS"},
		"read LEDGER":   {"DIRECT.GET.hr_demo_LEDGER", "STREAM.MSG.GET.hr_demo_LEDGER"},
		"read the lease key": {"DIRECT.GET." + keys, "DIRECT.GET." + keys + "." + subjects.BucketSubject(run.KeysBucket(), subjects.LeaseKeyName),
			"STREAM.MSG.GET." + keys, "STREAM.INFO." + keys},
		"read another run's record": {"DIRECT.GET." + record, "DIRECT.GET." + record + "." + subjects.BucketSubject(subjects.RunsBucket, string(other)),
			"DIRECT.GET." + record + "." + subjects.BucketSubject(subjects.RunsBucket, ">"), "STREAM.MSG.GET." + record},
	} {
		t.Run(what, func(t *testing.T) {
			for _, request := range list {
				for _, api := range []string{"$JS.API.", c.api} {
					if c.publish(t, api+request, c.NewInbox(), `{"seq":1}`) == nil {
						t.Errorf("%s is permitted", api+request)
					}
				}
			}
		})
	}
	t.Run("write", func(t *testing.T) {
		for _, subject := range []string{
			run.LedgerSubject(), run.WeightsSubject(subjects.EventCommit), run.WeightsSubject(subjects.EventVersion), run.AckSubject("engine"),
			run.DeadLetterSubject("inspect"), run.TaskSubject(subjects.Train, "t1", 0, 0), run.InspectedSubject(), run.StallSubject(),
			run.TelemetrySubject("grouper", "g"), run.TelemetrySubject("produce", "p02"),
			run.RolloutSubject("p02"), run.RolloutSubject("p01") + ".x", other.RolloutSubject("p01"), other.LedgerSubject(),
			subjects.BucketSubject(subjects.RunsBucket, string(run)), subjects.BucketSubject(run.EnginesBucket(), "engine"),
			subjects.EdgeAPI + "." + subjects.BucketSubject(run.EnginesBucket(), "engine"), subjects.EdgeAPI + "." + subjects.BucketSubject(subjects.RunsBucket, string(run)),
			"$JS.ACK.hr_demo_LEDGER.x.1.1.1.1.0", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ", "_INBOX.p02.x", "anything",
		} {
			if c.publish(t, subject, "", "evil") == nil {
				t.Errorf("publishing to %s is permitted", subject)
			}
		}
	})
	t.Run("subscribe", func(t *testing.T) {
		for _, subject := range []string{">", "*.>", "hr.>", run.Filter(subjects.Rollouts), run.LedgerSubject(), run.StallSubject(), "$KV.>", "$JS.>", "$SYS.>", "$JS.EVENT.>",
			"_INBOX.>", "_INBOX.*.>", "_INBOX.p02.>", "_INBOX.admin.>", "_R_.>"} {
			if c.subscribe(t, subject) == nil {
				t.Errorf("subscribing to %s is permitted", subject)
			}
		}
	})
	after := state(t, admin)
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("%s changed:\n%s\n%s", name, before[name], after[name])
		}
	}
}

// TestProducer_AnswersGoNowhereElse: the server publishes an answer wherever the
// reply subject of a request points, and asks for no permission there. That must
// not become a way to write, purge or delete.
func TestProducer_AnswersGoNowhereElse(t *testing.T) {
	s, admin := newRuns(t)
	c := connect(t, s, "producers/p01")
	spy := connect(t, s, "producers/p02")
	inbox, err := spy.SubscribeSync("_INBOX.p02.>")
	must(t, err)
	must(t, spy.Flush())
	lease := run.StreamName(subjects.Tasks) + "." + subjects.TaskConsumer
	ctx, cancel := context.WithCancel(t.Context())
	desk := make(chan error, 1)
	grouper := s.Connect(t, "grouper")
	go func() { desk <- bus.Desk(ctx, grouper, run, zerolog.Nop()) }()
	defer func() { cancel(); must(t, <-desk) }()
	before := state(t, admin)
	for _, target := range []string{
		run.LedgerSubject(), run.RolloutSubject("p02"), other.RolloutSubject("p01"), run.WeightsSubject(subjects.EventCommit), run.TaskSubject(subjects.Train, "t1", 0, 0),
		subjects.BucketSubject(subjects.RunsBucket, string(run)), subjects.BucketSubject(run.EnginesBucket(), "engine"),
		"$JS.API.STREAM.DELETE.hr_demo_LEDGER", "$JS.API.STREAM.PURGE.hr_demo_LEDGER", "$JS.API.STREAM.DELETE.hr_other_ROLLOUTS",
		subjects.EdgeAPI + ".STREAM.DELETE.hr_demo_LEDGER", "_INBOX.p02.x", run.TelemetrySubject("produce", "p02"),
	} {
		for _, q := range []struct{ subject, data string }{
			{run.LeaseSubject("p01"), `{"batch":1}`}, // which ends without a body
			{c.api + "CONSUMER.INFO." + lease, ""},
			{c.api + "STREAM.INFO." + subjects.BucketStream(subjects.RunsBucket), ""},
			{c.api + "DIRECT.GET." + subjects.BucketStream(run.EnginesBucket()), `{"seq":1}`},
		} {
			if err := c.publish(t, q.subject, target, q.data); err != nil {
				t.Errorf("%v: this is what a producer does", err)
			}
		}
	}
	must(t, c.ask(t, c.api+"CONSUMER.INFO."+lease, "")) // all before it was answered,
	answers, err := c.SubscribeSync(c.NewInbox())
	must(t, err)
	for answered := false; !answered; { // and by the desk, which first has enough of them
		must(t, c.publish(t, run.LeaseSubject("p01"), answers.Subject, `{"batch":1}`))
		_, err := answers.NextMsg(200 * time.Millisecond)
		answered = err == nil
		must(t, t.Context().Err())
	}
	after := state(t, admin)
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("%s changed:\n%s\n%s", name, before[name], after[name])
		}
	}
	must(t, spy.Flush())
	if n, _, err := inbox.Pending(); n != 0 || err != nil {
		t.Errorf("another's inbox got %d messages, %v", n, err)
	}
	// The receipt of a trajectory is such an answer too.
	must(t, c.publish(t, run.RolloutSubject("p01"), run.LedgerSubject(), "x"))
	must(t, c.publish(t, run.RolloutSubject("p01"), run.RolloutSubject("p02"), "x"))
	// So would be the trace of a message's way.
	traced := nats.NewMsg(run.RolloutSubject("p01"))
	traced.Header = nats.Header{"Nats-Trace-Dest": {run.LedgerSubject()}, "Nats-Trace-Only": {"true"}}
	must(t, c.PublishMsg(traced))
	must(t, c.ask(t, run.RolloutSubject("p01"), "x"))
	end := state(t, admin)
	for name := range after {
		if after[name] != end[name] && name != run.StreamName(subjects.Rollouts) {
			t.Errorf("%s changed:\n%s\n%s", name, after[name], end[name])
		}
	}
	st, err := bus.StreamState(t.Context(), admin, run, subjects.Rollouts)
	if err != nil || st.Msgs != 6 {
		t.Errorf("ROLLOUTS has %d messages, want 3 and the producer's 3: %v", st.Msgs, err)
	}
}

// TestNobody_GetsIn: without credentials nothing is answered, without TLS
// nothing is said.
func TestNobody_GetsIn(t *testing.T) {
	s, _ := newRuns(t)
	ca := filepath.Join(s.Dir, "tls", "ca.pem")
	for name, opts := range map[string][]nats.Option{
		"no credentials": {nats.RootCAs(ca)},
		"a password":     {nats.RootCAs(ca), nats.UserInfo("headrace", "headrace")},
		"a token":        {nats.RootCAs(ca), nats.Token("x")},
	} {
		nc, err := nats.Connect(s.URL(), opts...)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]bus.Options{"headrace without credentials": {URL: s.URL(), CA: ca}} {
		c, err := bus.Connect(t.Context(), o)
		if err == nil {
			_ = c.Close()
		}
		if !errors.Is(err, bus.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another operator's credentials, well formed.
	stranger := natstest.NewSecure(t, run)
	for _, name := range []string{"admin", "producers/p01"} {
		o := stranger.Options(name)
		o.URL, o.CA = s.URL(), ca
		c, err := bus.Connect(t.Context(), o)
		if err == nil {
			_ = c.Close()
		}
		if !errors.Is(err, bus.ErrPermission) || strings.Contains(err.Error(), "\n") {
			t.Errorf("a stranger's %s: %v", name, err)
		}
	}
}

func TestPlainTCP_SaysNothing(t *testing.T) {
	s, _ := newRuns(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "tls://"))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO ") || !strings.Contains(line, `"tls_required":true`) {
		t.Fatalf("%q, %v", line, err)
	}
	_, err = conn.Write([]byte("CONNECT {\"tls_required\":false}\r\nSUB > 1\r\nPUB hr.demo.ledger 4\r\nevil\r\nPING\r\n"))
	must(t, err)
	rest, err := io.ReadAll(r) // until the server hangs up
	if strings.Contains(string(rest), "PONG") || strings.Contains(string(rest), "+OK") || strings.Contains(string(rest), "MSG ") {
		t.Errorf("the server answers %q, %v", rest, err)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the server keeps the connection")
	}
}

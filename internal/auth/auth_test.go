package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/auth"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

var files = []string{"admin", "grouper", "trainer", "engine", "viewer", "producers/p01"}

// TestRoles_MayDoWhatTheyAreForAndNoMore is the table of who may do what. Each
// operation is tried by every role; one that may, gets an answer.
func TestRoles_MayDoWhatTheyAreForAndNoMore(t *testing.T) {
	s, _ := newRuns(t)
	keys, record, engines := subjects.BucketStream(run.KeysBucket()), subjects.BucketStream(subjects.RunsBucket), subjects.BucketStream(run.EnginesBucket())
	leaseKey := keys + "." + subjects.BucketSubject(run.KeysBucket(), subjects.LeaseKeyName)
	recordOf := func(r subjects.Run) string {
		return record + "." + subjects.BucketSubject(subjects.RunsBucket, string(r))
	}
	clients := map[string]*client{}
	for _, f := range files {
		clients[f] = connect(t, s, f)
	}
	const admin, grouper, trainer, engine, viewer, producer = "admin", "grouper", "trainer", "engine", "viewer", "producers/p01"
	everyone := files
	for _, op := range []struct {
		what    string
		subject func(c *client) string
		data    string
		may     []string
	}{
		{"read ROLLOUTS", api("DIRECT.GET.hr_demo_ROLLOUTS"), `{"seq":1}`, []string{grouper, trainer, viewer}},
		{"have a consumer of ROLLOUTS", api("CONSUMER.CREATE.hr_demo_ROLLOUTS.c1"), "x", []string{grouper, trainer}},
		{"read LEDGER", api("STREAM.MSG.GET.hr_demo_LEDGER"), `{"seq":1}`, []string{grouper, trainer, viewer}},
		{"read TELEMETRY", api("DIRECT.GET.hr_demo_TELEMETRY"), `{"seq":1}`, []string{grouper, trainer, viewer}},
		{"read another run's LEDGER", api("STREAM.MSG.GET.hr_other_LEDGER"), `{"seq":1}`, nil},
		{"read the newest weights' event", api("DIRECT.GET.hr_demo_WEIGHTS." + run.WeightsSubject(subjects.EventVersion)), "", []string{grouper, trainer, engine, viewer}},
		{"read the lease key", api("DIRECT.GET." + leaseKey), "", []string{grouper, trainer}},
		{"read the own run's record", api("DIRECT.GET." + recordOf(run)), "", everyone},
		{"read another run's record", api("DIRECT.GET." + recordOf(other)), "", nil},
		{"read the registry of engines", api("DIRECT.GET." + engines), `{"multi_last":[">"]}`, everyone},
		{"lease a task of the queue", api("CONSUMER.MSG.NEXT.hr_demo_TASKS.producers"), `{"batch":1,"no_wait":true}`, []string{grouper}},
		{"ask the desk for a task as p01", at(run.LeaseSubject("p01")), `{"batch":1}`, []string{producer}},
		{"ask the desk for a task as p02", at(run.LeaseSubject("p02")), `{"batch":1}`, nil},
		{"acknowledge a lease", at("$JS.ACK.hr_demo_TASKS.producers.1.1.1.1.0"), "+WPI", []string{producer, grouper}},
		{"publish a trajectory as p01", at(run.RolloutSubject("p01")), "x", []string{producer}},
		{"publish a trajectory as p02", at(run.RolloutSubject("p02")), "x", nil},
		{"write LEDGER", at(run.LedgerSubject()), "x", []string{grouper}},
		{"issue a task", at(run.TaskSubject(subjects.Train, "t9", 0, 0)), "x", []string{grouper}},
		{"commit a step", at(run.WeightsSubject(subjects.EventCommit)), "x", []string{trainer}},
		{"acknowledge a version as engine", at(run.AckSubject("engine")), "x", []string{engine}},
		{"acknowledge a version as e2", at(run.AckSubject("e2")), "x", nil},
		{"say what the trainer does", at(run.SpanSubject("trainer", "rank0")), "x", []string{trainer}},
		{"say what the engine does", at(run.SpanSubject("engine", "engine")), "x", []string{engine}},
		{"say what another engine does", at(run.SpanSubject("engine", "e2")), "x", nil},
		{"bury a dead letter", at(run.DeadLetterSubject("inspect")), "x", []string{trainer}},
		{"write the run's record", at(subjects.BucketSubject(subjects.RunsBucket, string(run))), `{"run":"demo","schema":1}`, []string{grouper}},
		{"register as engine", key(subjects.BucketSubject(run.EnginesBucket(), "engine")), "{}", []string{engine}},
		{"register as e2", key(subjects.BucketSubject(run.EnginesBucket(), "e2")), "{}", nil},
		{"purge ROLLOUTS", api("STREAM.PURGE.hr_demo_ROLLOUTS"), `{"seq":1}`, []string{trainer}},
		{"purge LEDGER", api("STREAM.PURGE.hr_demo_LEDGER"), `{"seq":1}`, nil},
		{"delete LEDGER", api("STREAM.DELETE.hr_demo_LEDGER"), "not this time", nil},
		{"change LEDGER", api("STREAM.UPDATE.hr_demo_LEDGER"), "x", nil},
		{"make a stream", api("STREAM.CREATE.hr_demo_X"), "x", nil},
		{"delete the tasks' consumer", api("CONSUMER.DELETE.hr_demo_TASKS.other"), "", nil},
		{"list streams", api("STREAM.NAMES"), "", nil},
	} {
		for _, f := range files {
			c := clients[f]
			subject := op.subject(c)
			err := c.ask(t, subject, op.data)
			if op.what == "acknowledge a lease" || strings.HasPrefix(op.what, "ask the desk") { // nobody answers that here
				err = c.publish(t, subject, "", op.data)
			}
			if may := f == admin || slices.Contains(op.may, f); may != (err == nil) {
				t.Errorf("%s: may %s %v: %s: %v", f, op.what, may, subject, err)
			}
		}
	}
	for _, op := range []struct {
		subject string
		may     []string
	}{
		{run.InspectedSubject(), []string{grouper}},
		{run.StallSubject(), []string{grouper, trainer}},
		{run.LeaseSubject("*"), []string{grouper}},
		{run.Filter(subjects.Telemetry), []string{grouper, trainer}},
		{run.TelemetrySubject("produce", "p01"), []string{grouper, trainer, producer}},
		{run.TelemetrySubject("produce", "p02"), []string{grouper, trainer}},
		{run.TelemetrySubject("engine", "engine"), []string{grouper, trainer, engine}},
		{run.Filter(subjects.Rollouts), nil},
		{other.Filter(subjects.Telemetry), nil},
		{"_INBOX.p02.>", nil},
		{"_INBOX.grouper.>", []string{grouper}},
		{">", nil},
	} {
		for _, f := range files {
			err := clients[f].subscribe(t, op.subject)
			if may := f == admin || slices.Contains(op.may, f); may != (err == nil) {
				t.Errorf("%s: may subscribe to %s %v: %v", f, op.subject, may, err)
			}
		}
	}
}

// api is a request to JetStream, where the role has it.
func api(request string) func(*client) string {
	return func(c *client) string { return c.api + request }
}

func at(subject string) func(*client) string { return func(*client) string { return subject } }

// key is where the role writes a key of a bucket.
func key(subject string) func(*client) string {
	return func(c *client) string {
		if c.api == "$JS.API." {
			return subject
		}
		return c.api + subject
	}
}

// TestConnect_DoesNotTrustAnotherCA: a server that cannot prove itself gets
// nothing, and the user one line that says what to do.
func TestConnect_DoesNotTrustAnotherCA(t *testing.T) {
	s, _ := newRuns(t)
	wrong := filepath.Join(natstest.NewSecure(t, run).Dir, "tls", "ca.pem")
	plain := natstest.Loopback(t)
	for name, c := range map[string]struct {
		o    bus.Options
		says string
	}{
		"another CA":              {bus.Options{URL: s.URL(), Creds: s.File("producers/p01"), CA: wrong}, "--ca"},
		"no CA":                   {bus.Options{URL: s.URL()}, "--ca"},
		"a server without TLS":    {bus.Options{URL: plain.URL(), Creds: s.File("producers/p01")}, "another server"},
		"a file that is not a CA": {bus.Options{URL: s.URL(), CA: s.Dir + "/nats.conf"}, "no certificate"},
	} {
		conn, err := bus.Connect(t.Context(), c.o)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s: connected", name)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || name != "a file that is not a CA" && !errors.Is(err, bus.ErrUntrusted) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRevoke_EndsACredentialOnceTheServerReloads, of either kind, and nobody else's.
func TestRevoke_EndsACredentialOnceTheServerReloads(t *testing.T) {
	s, _ := newRuns(t)
	bystander := s.Connect(t, "producers/p02")
	for _, name := range []string{"producers/p01", "grouper"} {
		kept := filepath.Join(t.TempDir(), "stolen.creds")
		b, err := os.ReadFile(s.File(name))
		must(t, err)
		must(t, os.WriteFile(kept, b, 0o600))
		live := connect(t, s, name)
		r, err := auth.Revoke(s.Dir, filepath.Base(name))
		if err != nil || !r.Reload {
			t.Fatalf("%+v, %v", r, err)
		}
		dropped := live.StatusChanged()
		s.Reload(t)
		select {
		case <-dropped:
		case <-time.After(10 * time.Second):
			t.Errorf("%s is still connected", name)
		}
		c, err := bus.Connect(t.Context(), bus.Options{URL: s.URL(), Creds: kept})
		if err == nil {
			_ = c.Close()
		}
		if !errors.Is(err, bus.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(s.File(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is still there: %v", name, err)
		}
	}
	if _, err := bus.LookupRun(t.Context(), bystander, run); err != nil {
		t.Error(err)
	}
}

// TestAdd_NeedsNoRestart: a new credential works once the server has read its
// configuration again; one of the core at once.
func TestAdd_NeedsNoRestart(t *testing.T) {
	s, _ := newRuns(t)
	r, err := auth.Add(s.Dir, auth.Grouper, "second", run)
	if err != nil || r.Reload {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := bus.LookupRun(t.Context(), s.Connect(t, "second"), run); err != nil {
		t.Error(err)
	}
	r, err = auth.Add(s.Dir, auth.Producer, "p77", run)
	if err != nil || !r.Reload {
		t.Fatalf("%+v, %v", r, err)
	}
	s.Reload(t)
	if _, err := bus.LookupRun(t.Context(), s.Connect(t, "producers/p77"), run); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"the same name": second(auth.Add(s.Dir, auth.Producer, "p77", run)),
		"no name":       second(auth.Add(s.Dir, auth.Producer, "a.b", run)),
		"a name taken":  second(auth.Add(s.Dir, auth.Producer, subjects.RequeueProducer, run)),
		"no run":        second(auth.Add(s.Dir, auth.Producer, "p78", "")),
		"no folder":     second(auth.Add(t.TempDir(), auth.Producer, "p78", run)),
		"revoke nobody": second(auth.Revoke(s.Dir, "p79")),
	} {
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second(_ *auth.Result, err error) error { return err }

// TestInit_AgainKeepsWhatIsThere, adds what is missing, and tells nobody.
func TestInit_AgainKeepsWhatIsThere(t *testing.T) {
	o := auth.Options{Dir: filepath.Join(t.TempDir(), "auth"), Run: run, Producers: 2, HandOut: filepath.Join(t.TempDir(), "out")}
	first, err := auth.Init(o)
	if err != nil || len(first.Made) != 7 || first.Reload {
		t.Fatalf("%+v, %v", first, err)
	}
	before := tree(t, o.Dir)
	again, err := auth.Init(o)
	if err != nil || len(again.Made) != 0 || again.Reload {
		t.Fatalf("%+v, %v", again, err)
	}
	same(t, before, tree(t, o.Dir))
	o.Producers = 3
	if more, err := auth.Init(o); err != nil || len(more.Made) != 1 || !more.Reload {
		t.Errorf("%+v, %v", more, err)
	}
	o.Run = other
	if more, err := auth.Init(o); err != nil || len(more.Made) != 7 || more.Made[0].Name != "other-grouper" {
		t.Errorf("%+v, %v", more, err)
	}
	o.Hosts = []string{"nats.example"} // a certificate for one more name, from the same CA
	if more, err := auth.Init(o); err != nil || !more.Reload {
		t.Errorf("%+v, %v", more, err)
	}
	after := tree(t, o.Dir)
	for name, text := range before {
		if strings.HasPrefix(name, "keys/") || strings.HasPrefix(name, "creds/") || name == "tls/ca.pem" {
			if after[name] != text {
				t.Errorf("%s changed", name)
			}
		}
	}
	verifies(t, o.Dir, "nats.example")
	handedOut(t, o.HandOut, tree(t, o.HandOut), other)
	o.Run = run
	_, err = auth.Init(o)
	must(t, err)
	handedOut(t, o.HandOut, tree(t, o.HandOut), run)
}

// tree is every file of a folder; nobody but its owner may read any.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(b)
		return err
	}))
	return out
}

func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name := range after {
		if before[name] != after[name] {
			t.Errorf("%s changed", name)
		}
	}
}

func verifies(t *testing.T, dir, host string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls", "server.pem"), filepath.Join(dir, "tls", "server.key"))
	must(t, err)
	ca, err := os.ReadFile(filepath.Join(dir, "tls", "ca.pem"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	must(t, err)
	for _, h := range []string{host, "localhost", "127.0.0.1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: h}); err != nil {
			t.Errorf("%s: %v", h, err)
		}
	}
}

// handedOut: each folder has what its role needs and nothing of another's, and
// what signs is in none.
func handedOut(t *testing.T, dir string, files map[string]string, of subjects.Run) {
	t.Helper()
	for name, text := range files {
		role, rest, _ := strings.Cut(name, "/")
		if strings.Contains(name, ".nk") || strings.Contains(name, "ca.key") {
			t.Errorf("%s is handed out", name)
		}
		if role == "nats" {
			if strings.Contains(text, "USER NKEY SEED") {
				t.Errorf("%s has a seed", name)
			}
			continue
		}
		o := bus.Options{Creds: filepath.Join(dir, name)}
		if id, err := o.Identify(); err != nil || id.Role != role || id.Run != of && role != "admin" {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
		if !strings.HasPrefix(rest, "creds/") {
			t.Errorf("%s is handed out", name)
		}
	}
	for _, name := range []string{"nats/nats.conf", "nats/tls/server.key", "admin/creds/admin.creds", "trainer/creds/trainer.creds", "producer/creds/producers/p02.creds"} {
		if files[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

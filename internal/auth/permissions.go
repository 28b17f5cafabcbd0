package auth

import (
	"slices"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// What stands for a credential's run and name in a role's permissions; the
// server fills it in from the credential.
const (
	anyRun  = subjects.Run("{{tag(run)}}")
	anyName = "{{name()}}"
	jsAPI   = "$JS.API."
)

// grants are the subjects a role may publish to and subscribe to. What is
// asked of JetStream is a publish.
type grants struct{ publish, subscribe []string }

func (g *grants) pub(subjects ...string) { g.publish = append(g.publish, subjects...) }
func (g *grants) sub(subjects ...string) { g.subscribe = append(g.subscribe, subjects...) }

// api permits requests to JetStream.
func (g *grants) api(requests ...string) {
	for _, r := range requests {
		g.pub(jsAPI + r)
	}
}

// permissions of a role, with placeholders. Every line is there because the
// role's code fails without it; the tests run that code. What an account of its
// own may never have is making a consumer: its maker says where it delivers.
func permissions(r Role) grants {
	var g grants
	g.sub(subjects.InboxPrefix(anyName) + ".>")
	switch r {
	case Admin:
		return grants{publish: []string{">"}, subscribe: []string{">"}}
	case Grouper:
		g.grouper()
	case Trainer:
		g.trainer()
	case Engine:
		g.engine()
	case Producer:
		g.producer()
	case Viewer:
		for _, s := range subjects.Streams() {
			g.ask(anyRun.StreamName(s))
		}
	}
	g.key(subjects.RunsBucket, string(anyRun)) // the own run's record, and no other's
	g.ask(subjects.BucketStream(anyRun.EnginesBucket()))
	if !r.apart() {
		g.follow(subjects.BucketStream(subjects.RunsBucket), subjects.BucketSubject(subjects.RunsBucket, string(anyRun)))
		g.follow(subjects.BucketStream(anyRun.EnginesBucket()), subjects.BucketSubject(anyRun.EnginesBucket(), ">"))
	}
	slices.Sort(g.publish)
	g.publish = slices.Compact(g.publish)
	return g
}

func (g *grants) grouper() {
	g.readAll()
	g.leaseKey()
	g.pub(anyRun.LedgerSubject(), anyRun.Filter(subjects.Tasks),
		subjects.BucketSubject(subjects.RunsBucket, string(anyRun)), // it writes why the run ended
		anyRun.TelemetrySubject("grouper", "*"), anyRun.SpanSubject("grouper", "*"), anyRun.TelemetrySubject("watchdog", "*"), anyRun.StallSubject())
	g.sub(anyRun.InspectedSubject(), anyRun.StallSubject(), anyRun.Filter(subjects.Telemetry))
	g.api("STREAM.PURGE." + anyRun.StreamName(subjects.Tasks)) // of a run that ended
	g.desk()
}

func (g *grants) trainer() {
	g.readAll()
	g.leaseKey()
	g.pub(anyRun.WeightsSubject("*"), anyRun.Filter(subjects.DeadLetter), anyRun.InspectedSubject(),
		anyRun.TelemetrySubject("bridge", "*"), anyRun.SpanSubject("bridge", "*"),
		anyRun.SpanSubject("trainer", "*"), // the bridge speaks for its trainers
		anyRun.TelemetrySubject("watchdog", "*"), anyRun.StallSubject())
	g.sub(anyRun.StallSubject(), anyRun.Filter(subjects.Telemetry))
	g.api("STREAM.PURGE."+anyRun.StreamName(subjects.Rollouts), // its janitor, below the checkpointed watermark
		"STREAM.PURGE."+anyRun.StreamName(subjects.DeadLetter)) // its inspector, when that is full
}

// engine reads the newest version of the weights and speaks for itself alone.
func (g *grants) engine() {
	g.last(anyRun.StreamName(subjects.Weights), anyRun.WeightsSubject(subjects.EventVersion))
	g.pub(anyRun.AckSubject(anyName), anyRun.TelemetrySubject("engine", anyName), anyRun.SpanSubject("engine", anyName),
		subjects.BucketSubject(anyRun.EnginesBucket(), anyName))
	g.sub(anyRun.TelemetrySubject("engine", anyName)) // its own metrics page
}

// producer leases tasks and publishes under its own name. Leases are known to
// the server by numbers, so it may also acknowledge those of others; docs/security.md
// says what comes of it.
func (g *grants) producer() {
	g.pub(anyRun.RolloutSubject(anyName), anyRun.TelemetrySubject("produce", anyName), anyRun.SpanSubject("produce", anyName))
	g.pub(anyRun.LeaseAcks()...)
	g.pub(anyRun.LeaseSubject(anyName))
	g.sub(anyRun.TelemetrySubject("produce", anyName)) // its own metrics page
	g.api("CONSUMER.INFO." + anyRun.StreamName(subjects.Tasks) + "." + subjects.TaskConsumer)
}

// desk is handing out leases to producers, for whom it asks the queue.
func (g *grants) desk() {
	g.sub(anyRun.LeaseSubject("*"))
	g.pub("_R_.>") // where answers to other accounts go
	g.pub(anyRun.LeaseAcks()...)
	g.api("CONSUMER.MSG.NEXT." + anyRun.StreamName(subjects.Tasks) + "." + subjects.TaskConsumer)
}

// leaseKey is reading the secret behind lease tokens: of those who issue tasks
// and those who check what comes back.
func (g *grants) leaseKey() { g.key(anyRun.KeysBucket(), subjects.LeaseKeyName) }

// key is reading one key of a bucket.
func (g *grants) key(bucket, key string) {
	g.last(subjects.BucketStream(bucket), subjects.BucketSubject(bucket, key))
}

// last is reading the last message of one subject of a stream.
func (g *grants) last(stream, subject string) {
	g.api("STREAM.INFO."+stream, "DIRECT.GET."+stream+"."+subject)
}

// ask is reading a stream by asking for its messages.
func (g *grants) ask(stream string) {
	g.api("STREAM.INFO."+stream, "STREAM.MSG.GET."+stream, "DIRECT.GET."+stream, "DIRECT.GET."+stream+".>")
}

// follow is having a consumer of part of a stream, as internal/bus makes them.
// The filter is in the subject of the request, and the server holds the consumer to it.
func (g *grants) follow(stream, filter string) {
	g.api("STREAM.INFO."+stream, "CONSUMER.CREATE."+stream+".*."+filter)
	g.pull(stream)
}

func (g *grants) pull(stream string) {
	g.api("CONSUMER.INFO."+stream+".*", "CONSUMER.MSG.NEXT."+stream+".*", "CONSUMER.DELETE."+stream+".*")
}

// readAll is reading every stream in every way there is, but for consumers of
// TASKS: it is a queue, and what one reads no producer gets.
func (g *grants) readAll() {
	for _, s := range subjects.Streams() {
		name := anyRun.StreamName(s)
		g.ask(name)
		if s == subjects.Tasks {
			g.api("CONSUMER.INFO." + name + ".*")
			continue
		}
		g.api("CONSUMER.CREATE."+name+".*", "CONSUMER.CREATE."+name+".*.>")
		g.pull(name)
	}
}

// fill puts a run and a name where the server would.
func fill(subject string, run subjects.Run, name string) string {
	return strings.NewReplacer(string(anyRun), string(run), anyName, name).Replace(subject)
}

// local is the subject under which a role with an account of its own asks.
func local(subject string) string {
	if rest, ok := strings.CutPrefix(subject, jsAPI); ok {
		return subjects.EdgeAPI + "." + rest
	}
	if strings.HasPrefix(subject, "$KV.") { // the client library writes keys there
		return subjects.EdgeAPI + "." + subject
	}
	return subject
}

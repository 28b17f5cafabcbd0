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
// role's code fails without it; the tests run that code.
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
		g.read(subjects.Streams()...)
	}
	g.record()
	g.engines()
	slices.Sort(g.publish)
	g.publish = slices.Compact(g.publish)
	return g
}

func (g *grants) grouper() {
	g.read(subjects.Streams()...)
	g.leaseKey()
	g.pub(anyRun.LedgerSubject(), anyRun.Filter(subjects.Tasks),
		subjects.BucketSubject(subjects.RunsBucket, string(anyRun)), // it writes why the run ended
		anyRun.TelemetrySubject("grouper", "*"), anyRun.TelemetrySubject("watchdog", "*"), anyRun.StallSubject())
	g.sub(anyRun.InspectedSubject(), anyRun.StallSubject(), anyRun.Filter(subjects.Telemetry))
}

func (g *grants) trainer() {
	g.read(subjects.Streams()...)
	g.leaseKey()
	g.pub(anyRun.WeightsSubject("*"), anyRun.Filter(subjects.DeadLetter), anyRun.InspectedSubject(),
		anyRun.TelemetrySubject("bridge", "*"), anyRun.TelemetrySubject("watchdog", "*"), anyRun.StallSubject())
	g.sub(anyRun.StallSubject(), anyRun.Filter(subjects.Telemetry))
	g.api("STREAM.PURGE."+anyRun.StreamName(subjects.Rollouts), // its janitor, below the checkpointed watermark
		"STREAM.PURGE."+anyRun.StreamName(subjects.DeadLetter)) // its inspector, when that is full
}

// engine reads the versions of the weights and speaks for itself alone.
func (g *grants) engine() {
	g.follow(anyRun.StreamName(subjects.Weights), anyRun.WeightsSubject("*"))
	g.pub(anyRun.AckSubject(anyName), anyRun.TelemetrySubject("engine", anyName),
		subjects.BucketSubject(anyRun.EnginesBucket(), anyName))
}

// producer leases tasks and publishes under its own name. Leases are known to
// the server by numbers, so it may also acknowledge those of others; docs/security.md
// says what comes of it.
func (g *grants) producer() {
	g.pub(anyRun.RolloutSubject(anyName), anyRun.TelemetrySubject("produce", anyName))
	g.pub(anyRun.LeaseAcks()...)
	lease := anyRun.StreamName(subjects.Tasks) + "." + subjects.TaskConsumer
	g.api("CONSUMER.INFO."+lease, "CONSUMER.MSG.NEXT."+lease)
}

// record is reading the own run's record, and no other's.
func (g *grants) record() {
	g.key(subjects.RunsBucket, string(anyRun))
	g.follow(subjects.BucketStream(subjects.RunsBucket), subjects.BucketSubject(subjects.RunsBucket, string(anyRun)))
}

// engines is reading the run's registry of engines.
func (g *grants) engines() {
	g.key(anyRun.EnginesBucket(), ">")
	g.follow(subjects.BucketStream(anyRun.EnginesBucket()), subjects.BucketSubject(anyRun.EnginesBucket(), ">"))
}

// leaseKey is reading the secret behind lease tokens: of those who issue tasks
// and those who check what comes back.
func (g *grants) leaseKey() { g.key(anyRun.KeysBucket(), subjects.LeaseKeyName) }

// key is reading keys of a bucket one by one.
func (g *grants) key(bucket, key string) {
	stream := subjects.BucketStream(bucket)
	g.api("STREAM.INFO."+stream, "DIRECT.GET."+stream+"."+subjects.BucketSubject(bucket, key))
}

// follow is following part of a stream, as internal/bus does. The filter is in
// the subject of the request, and the server holds the consumer to it.
func (g *grants) follow(stream, filter string) {
	g.api("STREAM.INFO."+stream, "CONSUMER.CREATE."+stream+".*."+filter)
	g.pull(stream)
}

func (g *grants) pull(stream string) {
	g.api("CONSUMER.INFO."+stream+".*", "CONSUMER.MSG.NEXT."+stream+".*", "CONSUMER.DELETE."+stream+".*")
}

// read is reading streams in every way there is. TASKS cannot be followed: it
// is a queue, and what one reads no producer gets.
func (g *grants) read(streams ...subjects.Stream) {
	for _, s := range streams {
		name := anyRun.StreamName(s)
		g.api("STREAM.INFO."+name, "STREAM.MSG.GET."+name)
		if s == subjects.Tasks {
			g.api("CONSUMER.INFO." + name + ".*")
			continue
		}
		g.api("DIRECT.GET."+name, "DIRECT.GET."+name+".>", "CONSUMER.CREATE."+name+".*", "CONSUMER.CREATE."+name+".*.>")
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

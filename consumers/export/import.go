package export

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// ImportProducer is the name under which imported trajectories are in ROLLOUTS.
// Their bodies keep the name of who played them.
const ImportProducer = "import"

// EndImported is why an imported run has ended: nobody plays it.
const EndImported = "imported"

const (
	bundleBytes = 256 << 10
	bundleCount = 64
)

// Importer writes records into the streams of a new run: bodies into ROLLOUTS,
// in order, and at the end what the ledger said of them. It remembers some
// hundred bytes of each.
type Importer struct {
	ctx     context.Context
	conn    *bus.Conn
	run     subjects.Run
	entries []subjects.IndexEntry // of the bundle that collects
	fates   []*Fate
	bodies  bytes.Buffer
	large   *bus.Publisher
	sent    uint64 // messages
	count   uint64 // trajectories
	events  uint64
	ledger  ledger
}

// NewImporter returns an importer into a run whose streams are there, empty.
func NewImporter(ctx context.Context, c *bus.Conn, run subjects.Run) *Importer {
	return &Importer{ctx: ctx, conn: c, run: run, ledger: newLedger()}
}

// Write takes the next record.
func (i *Importer) Write(r *Record) error {
	t := r.trajectory()
	if err := t.Check(0); err != nil {
		return fmt.Errorf("trajectory %s: %w", t.ID(), err)
	}
	var body bytes.Buffer
	if err := subjects.EncodeTrajectory(&body, t); err != nil {
		return fmt.Errorf("trajectory %s: %w", t.ID(), err)
	}
	i.count++
	if int64(body.Len()) > i.conn.MaxPayload()-(64<<10) {
		return i.sendLarge(t, r.Fate, body.Bytes())
	}
	if len(i.entries) == bundleCount || len(i.entries) > 0 && i.bodies.Len()+body.Len() > bundleBytes {
		if err := i.flush(); err != nil {
			return err
		}
	}
	e := t.Index()
	e.Offset, e.Length, e.Checksum = i.bodies.Len(), body.Len(), subjects.Checksum(body.Bytes())
	i.entries, i.fates = append(i.entries, e), append(i.fates, r.Fate)
	i.bodies.Write(body.Bytes())
	return nil
}

// flush sends the bundle that collects.
func (i *Importer) flush() error {
	if len(i.entries) == 0 {
		return nil
	}
	i.sent++
	hdr := nats.Header{subjects.HeaderProducer: {ImportProducer}, subjects.HeaderCounter: {strconv.FormatUint(i.sent, 10)}}
	for k := range i.entries {
		hdr[subjects.HeaderIndex] = append(hdr[subjects.HeaderIndex], i.entries[k].String())
	}
	id := ImportProducer + "/" + strconv.FormatUint(i.sent, 10)
	seq, err := bus.Send(i.ctx, i.conn, i.run.RolloutSubject(ImportProducer), id, hdr, i.bodies.Bytes())
	if err != nil {
		return fmt.Errorf("import into %s: %w", i.run, err)
	}
	for k := range i.entries {
		i.ledger.add(&i.entries[k], subjects.Address{Seq: seq, Index: k}, i.fates[k])
	}
	i.entries, i.fates = i.entries[:0], i.fates[:0]
	i.bodies.Reset()
	return nil
}

// sendLarge sends a body that needs more than one message.
func (i *Importer) sendLarge(t *subjects.Trajectory, fate *Fate, body []byte) error {
	if err := i.flush(); err != nil {
		return err
	}
	if i.large == nil {
		i.large = bus.NewPublisher(i.conn, bus.PublisherConfig{Run: i.run, Producer: ImportProducer + "-large"})
	}
	e := t.Index()
	at, err := i.large.PublishEncoded(i.ctx, e, body)
	if err != nil {
		return fmt.Errorf("import into %s: %w", i.run, err)
	}
	e.Length, e.Checksum = len(body), subjects.Checksum(body)
	i.ledger.add(&e, at, fate)
	return nil
}

// Finish writes the ledger and returns how many trajectories there are.
func (i *Importer) Finish(now int64) (uint64, error) {
	err := i.flush()
	if i.large != nil && err == nil {
		err = i.large.Close(i.ctx)
	}
	if err == nil {
		err = i.ledger.write(i.ctx, i.conn, i.run, now)
	}
	return i.count, err
}

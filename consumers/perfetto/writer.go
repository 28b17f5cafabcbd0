package perfetto

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// maxNames bounds the texts a writer keeps numbers of. At the bound it forgets
// them all and tells the reader to.
const maxNames = 1 << 14

// Writer writes one sequence of packets. It is for one goroutine. The first
// error is kept and returned by [Writer.Flush]; nothing is written after it.
type Writer struct {
	out      *bufio.Writer
	sequence uint32
	begun    bool
	err      error
	packets  int64
	bytes    int64

	names, categories, keys names

	// Reused for each packet.
	packet, event, annotation, interned, framed message
}

// NewWriter returns a writer to w. Traces are put together by appending files;
// those of several writers then need different sequence numbers, from 1.
func NewWriter(w io.Writer, sequence uint32) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 64<<10), sequence: sequence,
		names: names{field: internedNames}, categories: names{field: internedCategories}, keys: names{field: internedAnnotations}}
}

// Clock says that the trace's times are Unix nanoseconds, so that a viewer can
// show the time of day. It comes first; at is any time of the trace.
func (w *Writer) Clock(at int64) {
	var snapshot message
	for _, id := range []uint64{clockBoottime, clockRealtime} {
		var c message
		c.uint(clockID, id)
		c.uint(clockTime, uint64(at))
		snapshot.embed(snapshotClock, c)
	}
	w.packet = w.packet[:0]
	w.packet.uint(packetTimestamp, uint64(at))
	w.packet.embed(packetClockSnapshot, snapshot)
	w.put(0)
}

// Track describes a track, before the first event on it.
func (w *Writer) Track(t Track) {
	w.event = w.event[:0]
	t.descriptor(&w.event)
	w.packet = w.packet[:0]
	w.packet.embed(packetDescriptor, w.event)
	w.put(0)
}

// Slice writes a slice without any inside.
func (w *Writer) Slice(e Event, end int64) {
	e.Kind = Begin
	w.Event(e)
	w.Event(Event{Kind: End, Track: e.Track, At: max(end, e.At)})
}

// Event writes an event. Counts that are no number are left out.
func (w *Writer) Event(e Event) {
	if e.Kind == Count && (math.IsNaN(e.Value) || math.IsInf(e.Value, 0)) {
		return
	}
	flags := uint64(flagNeeds)
	if len(w.names.ids)+len(w.categories.ids)+len(w.keys.ids) > maxNames {
		w.forget()
		flags |= flagCleared
	}
	w.encode(&e)
	w.packet = w.packet[:0]
	w.packet.uint(packetTimestamp, uint64(max(e.At, 0)))
	w.packet.embed(packetTrackEvent, w.event)
	if w.interned = w.take(w.interned[:0]); len(w.interned) > 0 {
		w.packet.embed(packetInterned, w.interned)
	}
	w.put(flags)
}

func (w *Writer) encode(e *Event) {
	w.event = w.event[:0]
	w.event.uint(eventType, uint64(e.Kind))
	w.event.uint(eventTrack, uint64(e.Track))
	if e.Name != "" {
		w.event.uint(eventNameID, w.names.id(e.Name))
	}
	if e.Category != "" {
		w.event.uint(eventCategoryIDs, w.categories.id(e.Category))
	}
	if e.Kind == Count {
		w.event.double(eventDouble, e.Value)
	}
	for _, id := range e.Flows {
		w.event.fixed64(eventFlows, id)
	}
	for _, id := range e.Ends {
		w.event.fixed64(eventEnds, id)
	}
	for i := range e.Args {
		w.annotation = w.annotation[:0]
		w.annotation.uint(annotationNameID, w.keys.id(e.Args[i].Key))
		e.Args[i].value(&w.annotation)
		w.event.embed(eventAnnotations, w.annotation)
	}
}

// take moves what the reader has yet to be told of into m.
func (w *Writer) take(m message) message {
	for _, n := range []*names{&w.categories, &w.names, &w.keys} {
		m = append(m, n.fresh...)
		n.fresh = n.fresh[:0]
	}
	return m
}

func (w *Writer) forget() {
	w.names.clear()
	w.categories.clear()
	w.keys.clear()
}

// put ends the packet and writes it as a field of the trace.
func (w *Writer) put(flags uint64) {
	w.packet.uint(packetSequence, uint64(w.sequence))
	if !w.begun {
		w.begun = true
		flags |= flagCleared
		w.packet.uint(packetFirst, 1)
	}
	if flags != 0 {
		w.packet.uint(packetFlags, flags)
	}
	w.framed = w.framed[:0]
	w.framed.embed(tracePacket, w.packet)
	if w.err != nil {
		return
	}
	if _, err := w.out.Write(w.framed); err != nil {
		w.err = fmt.Errorf("write trace: %w", err)
		return
	}
	w.packets++
	w.bytes += int64(len(w.framed))
}

// Written is how many packets and bytes were written, buffered ones included.
func (w *Writer) Written() (packets, bytes int64) { return w.packets, w.bytes }

// Flush writes what is buffered and returns the first error there was.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	if err := w.out.Flush(); err != nil {
		w.err = fmt.Errorf("write trace: %w", err)
	}
	return w.err
}

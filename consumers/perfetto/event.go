package perfetto

// Kind says what an [Event] is.
type Kind int

// The kinds of events, by their numbers in TrackEvent.Type.
const (
	Begin   Kind = 1 // a slice opens; those on one track nest
	End     Kind = 2 // the newest open slice of the track closes
	Instant Kind = 3
	Count   Kind = 4 // a counter's new value
)

// Event is something that happens on a track.
type Event struct {
	Kind  Kind
	Track TrackID
	At    int64 // nanoseconds, of one clock for the whole trace
	// Name and Category of what begins; a few hundred different ones, not one
	// an event: what differs belongs into Args.
	Name, Category string
	// Flows go through this event to the next one with the same number, those
	// in Ends end here.
	Flows, Ends []uint64
	Args        []Arg
	Value       float64 // of a Count
}

// Arg is a named fact about an event.
type Arg struct {
	Key  string
	kind int // a field number of DebugAnnotation
	n    uint64
	f    float64
	s    string
}

// Text is an argument that is text.
func Text(key, v string) Arg { return Arg{Key: key, kind: annotationText, s: v} }

// Int is an argument that is a whole number.
func Int[T ~int | ~int32 | ~int64](key string, v T) Arg {
	return Arg{Key: key, kind: annotationInt, n: uint64(int64(v))}
}

// Float is an argument that is a number.
func Float(key string, v float64) Arg { return Arg{Key: key, kind: annotationDouble, f: v} }

// Bool is an argument that is true or false.
func Bool(key string, v bool) Arg { return Arg{Key: key, kind: annotationBool, n: bit(v)} }

// value appends the argument's value.
func (a *Arg) value(m *message) {
	switch a.kind {
	case annotationText:
		m.text(a.kind, a.s)
	case annotationDouble:
		m.double(a.kind, a.f)
	default:
		m.uint(a.kind, a.n)
	}
}

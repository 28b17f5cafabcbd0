package subjects

import "fmt"

// DecodePartial reads as much of a body as there is sense in, for people who
// want to know what is wrong with it: the fields before the first fault, that
// fault, and the byte at or just before which it lies. A sound body gives a
// nil error and its length. Nothing of a partial trajectory is checked.
func DecodePartial(b []byte) (t *Trajectory, at int, err error) {
	v := BodyView{}
	c := &cursor{b: b}
	version := int64(0)
	c.fields(func(key []byte) bool {
		switch string(key) {
		case "v":
			version = c.int()
		case "seg":
			v.Segments = partialSegments(c)
		default:
			return v.field(c, key) || v.detail(c, key)
		}
		return true
	})
	at = len(b) - len(c.b)
	switch {
	case c.err != nil:
	case len(c.b) > 0:
		c.fail("%d bytes after the value", len(c.b))
	default:
		if c.err = checkVersion(version); c.err == nil {
			_, c.err = ViewBody(b) // what a body must have
		}
	}
	return v.trajectory(), at, c.err
}

// partialSegments are those before the first that cannot be read.
func partialSegments(c *cursor) []SegmentView {
	n := c.arrayLen()
	if n > maxSegments {
		c.fail("%d segments", n)
	}
	var views []SegmentView
	for i := 0; i < n && c.err == nil; i++ {
		s := SegmentView{Parent: -1}
		c.fields(func(key []byte) bool { return s.field(c, key) })
		if c.err != nil {
			c.err = fmt.Errorf("segment %d: %w", i, c.err)
			break
		}
		views = append(views, s)
	}
	return views
}

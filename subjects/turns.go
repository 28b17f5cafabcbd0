package subjects

import "fmt"

// turnColumns is the table of turns as it lies in the body: one array a column.
type turnColumns struct {
	n                                           int
	seg, prompt, completion, times, hit, reward []byte
	finish                                      []byte // n strings, checked
}

func readTurns(c *cursor) turnColumns {
	t := turnColumns{n: -1}
	c.fields(func(key []byte) bool { return t.field(c, key) })
	if c.err == nil && !t.even() {
		c.fail("columns of unequal length")
	}
	return t
}

func (t *turnColumns) field(c *cursor, key []byte) bool {
	switch string(key) {
	case "seg":
		t.seg = c.array(4)
	case "p":
		t.prompt = c.array(8)
	case "c":
		t.completion = c.array(8)
	case "t":
		t.times = c.array(24)
	case "hit":
		t.hit = c.array(4)
	case "r":
		t.reward = c.array(8)
	case "fin":
		t.n, t.finish = textRows(c, maxTurns)
	default:
		return false
	}
	return true
}

// textRows passes over an array of strings: their number and their bytes.
func textRows(c *cursor, limit int) (n int, rows []byte) {
	if n = c.arrayLen(); n > limit {
		c.fail("%d entries", n)
	}
	rows = c.b
	for range n {
		if c.text(); c.err != nil {
			return 0, nil
		}
	}
	return n, rows[:len(rows)-len(c.b)]
}

func (t *turnColumns) even() bool {
	n := t.n
	return n >= 0 && len(t.seg) == 4*n && len(t.prompt) == 8*n && len(t.completion) == 8*n &&
		len(t.times) == 24*n && len(t.hit) == 4*n && len(t.reward) == 8*n
}

// turn is the i-th turn without its finish reason.
func (t *turnColumns) turn(i int) Turn {
	return Turn{
		Segment: int(i32(t.seg, i)),
		Prompt:  Span{i32(t.prompt, 2*i), i32(t.prompt, 2*i+1)}, Completion: Span{i32(t.completion, 2*i), i32(t.completion, 2*i+1)},
		Queued: i64(t.times, 3*i), Generated: i64(t.times, 3*i+1), Stepped: i64(t.times, 3*i+2),
		Cached: i32(t.hit, i), Reward: f64(t.reward, i),
	}
}

// all decodes the table.
func (t *turnColumns) all() []Turn {
	if t.n <= 0 {
		return nil
	}
	out := make([]Turn, t.n)
	finish := cursor{b: t.finish}
	for i := range out {
		out[i] = t.turn(i)
		out[i].Finish = finish.str()
	}
	return out
}

// messageRows passes over the array of messages, which it checks, and returns its bytes.
func messageRows(c *cursor) []byte {
	rows := c.b
	eachMessage(c, func(Message) {}, func(*cursor) string { c.text(); return "" })
	if c.err != nil {
		return nil
	}
	return rows[:len(rows)-len(c.b)]
}

// eachMessage reads an array of messages, their texts by read.
func eachMessage(c *cursor, fn func(Message), read func(*cursor) string) {
	n := c.arrayLen()
	if n > maxMessages {
		c.fail("%d messages", n)
	}
	for i := range n {
		var m Message
		c.fields(func(key []byte) bool {
			switch string(key) {
			case "role":
				m.Role = read(c)
			case "content":
				m.Content = read(c)
			case "name":
				m.Name = read(c)
			default:
				return false
			}
			return true
		})
		if c.err != nil {
			c.err = fmt.Errorf("message %d: %w", i, c.err)
			return
		}
		fn(m)
	}
}

// readMessages decodes what [messageRows] returned.
func readMessages(rows []byte) []Message {
	if len(rows) == 0 {
		return nil
	}
	var out []Message
	c := &cursor{b: rows}
	eachMessage(c, func(m Message) { out = append(out, m) }, (*cursor).str)
	return out
}

package board

import (
	"math"
	"strconv"
)

// Number is a figure that may be unknown. Unknown is NaN in Go and null in
// JSON; so is what JSON cannot say, an infinity.
type Number float64

// Unknown is the number that nobody has said.
func Unknown() Number { return Number(math.NaN()) }

// Known reports whether the number is one.
func (n Number) Known() bool { return known(float64(n)) }

// Or is the number, or x if it is unknown.
func (n Number) Or(x float64) float64 {
	if n.Known() {
		return float64(n)
	}
	return x
}

func known(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// MarshalJSON implements [encoding/json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n), 64), nil }

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Unknown()
		return nil
	}
	x, err := strconv.ParseFloat(string(b), 64)
	*n = Number(x)
	return err
}

func appendNumber(b []byte, x float64, bits int) []byte {
	if !known(x) {
		return append(b, "null"...)
	}
	format := byte('f')
	if a := math.Abs(x); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e' // as in JavaScript
	}
	return strconv.AppendFloat(b, x, format, -1, bits)
}

// Column is a column of numbers; what is unknown is NaN in Go and null in JSON.
type Column []float64

// MarshalJSON implements [encoding/json.Marshaler].
func (c Column) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 8*len(c)+2), '[')
	for i, x := range c {
		if i > 0 {
			b = append(b, ',')
		}
		if y := float64(float32(x)); math.Abs(x) < 1e6 && known(y) {
			b = appendNumber(b, y, 32) // seven digits are enough for a chart
		} else {
			b = appendNumber(b, x, 64)
		}
	}
	return append(b, ']'), nil
}

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (c *Column) UnmarshalJSON(b []byte) error {
	var n []Number
	if err := unmarshal(b, &n); err != nil {
		return err
	}
	*c = make(Column, len(n))
	for i := range n {
		(*c)[i] = float64(n[i])
	}
	return nil
}

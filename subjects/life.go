package subjects

import (
	"strconv"
	"strings"
)

// HeaderLife is "name n" on a ROLLOUTS message: the name of the producer's
// process, new with every start, and how many of its messages had been
// acknowledged as stored, duplicates apart, when this one was first sent. So
// many lie before it in the stream, or the server lost some.
const HeaderLife = "Hr-Life"

// Life is the value of [HeaderLife].
func Life(name string, stored uint64) string { return name + " " + strconv.FormatUint(stored, 10) }

// ParseLife reads a [Life]; an empty name when it is none.
func ParseLife(s string) (name string, stored uint64) {
	name, number, _ := strings.Cut(s, " ")
	stored, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !validToken(name) {
		return "", 0
	}
	return name, stored
}

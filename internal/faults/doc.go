// Package faults holds Headrace to the faults that users of other systems met.
//
// One idea explains its shape: each such fault is a test here under the fault's
// own number, against the real stages on a real server, or a line in
// docs/faults.md that names the test elsewhere which holds it, or says why it
// cannot happen. A test reads that page and the source, so that it cannot rot.
package faults

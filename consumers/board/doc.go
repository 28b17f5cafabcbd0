// Package board is the picture of a run: what its streams say, folded into one
// [State] that pages, `headrace top` and the adviser read.
//
// One idea explains its shape: a board is a pure fold. It knows no broker and no
// clock; whoever reads the streams hands it each message with the server's time
// ([Board.Fold]), and whoever shows it says what time it is now ([Board.State]).
// What a stream says is never trusted: a value that is not a number becomes
// unknown (null in JSON), names and sizes beyond a bound are left out, and
// memory is bounded whatever comes.
package board

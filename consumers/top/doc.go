// Package top shows a run in a terminal: the numbers of `headrace ui`, redrawn
// in place, or a line now and then where there is no terminal.
//
// One idea explains its shape: [Render] makes lines of styled text out of a
// [board.State], for any width and height, and knows nothing of terminals; what
// remains is putting lines over the ones before. Text that comes from the
// streams is stripped of everything a terminal would obey.
package top

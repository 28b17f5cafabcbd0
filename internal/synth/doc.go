// Package synth writes a made-up run into a store, whole and consistent, in
// seconds: a million trajectories to look at, without the hours of playing them.
//
// One idea explains its shape: only the players are made up. The pure core of
// package grouper decides, in virtual time, on what made-up producers, engines and
// a made-up trainer do, so the ledger is what a grouper would have written and
// `headrace audit` proves it. The streams are not published but restored from a
// backup in the server's own format, since a message's time is then what it says.
package synth

// Package ui is `headrace ui`: the page that shows runs in a browser, and the API
// that it reads.
//
// One idea explains its shape: whatever many browsers ask, a run is read once. The
// first request about a run opens one connection, one board and one index of it;
// all later ones, and every browser that stays, look at those. A browser is never
// sent what it missed but what is now, so one that is slow or asleep costs nothing.
// Some time after the last of them is gone, the connection is closed.
package ui

// Package subjects is the one page that says what travels on the bus: subject
// names, stream configurations with the reason for every field, message types,
// headers and the codec. No subject literal stands anywhere else.
//
// One idea explains its shape: headers are the index, bodies are opaque. A
// ROLLOUTS message is a bundle of finished trajectories; for each of them one
// header value says all that grouping needs (see [IndexEntry]), so the grouper
// never reads a body, and the trainer bridge fetches bodies by sequence and
// cuts rows out of them by the offsets in the index.
package subjects

// SchemaVersion is the version of every message type in this package. Fields
// are only ever added; readers ignore fields they do not know and refuse
// messages of a higher version than theirs.
const SchemaVersion = 1

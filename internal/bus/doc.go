// Package bus is Headrace's access to NATS JetStream: connecting, the embedded
// server, publishing trajectories in bundles, following and fetching them,
// compare-and-set on the ledger, task leases and the run's records.
//
// One idea explains its shape: nothing here keeps state that the log does not
// have. A publish carries an id that follows from what is published, so a
// retry is free; a reader keeps its own offset, so a lost consumer is made
// again from there; every answer of the server that a caller can act on is a
// typed error (see [APIError]).
package bus

// Package retentiontest holds the tests of what is purged, and of what a run and
// an audit can still do after it: real grouper, bridge and publisher on a real
// server, with a small ROLLOUTS.
package retentiontest

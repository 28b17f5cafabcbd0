// Package regroup puts the recorded rollouts of a run through the grouper's pure
// core under another policy, and says what would have been different.
//
// One idea explains its shape: the recording is the clock. A second core is asked
// at each point of the log at which the grouper decided something. What it did not
// ask for yet is held back until it does, and so is a commit of a step that it has
// not cut yet; what it never asks for goes unused. Under the run's own policy
// nothing is ever held back, and what comes out is the run's ledger, byte for byte.
package regroup

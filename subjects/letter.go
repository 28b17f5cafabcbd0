package subjects

// HeaderDropped marks the stub of a dead letter whose body was dropped: when
// (RFC 3339), a space, and how many messages it stands for. Its message id is
// dropped/ and the letter's sequence; all its other headers are the letter's, so
// that it rejects what the letter rejected.
const HeaderDropped = "Hr-Dropped"

// RequeueProducer is the name under which trajectories come back from
// DEADLETTER into ROLLOUTS.
const RequeueProducer = "requeue"

// HeaderLetters is on the inspector's word ([Run.InspectedSubject]): the
// DEADLETTER sequence up to which everything is that it rejected so far.
const HeaderLetters = "Hr-Letters"

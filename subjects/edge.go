package subjects

// EdgeAPI is where JetStream answers roles that have an account of their own;
// elsewhere it is $JS.API. A client library takes it as its API prefix.
const EdgeAPI = "headrace.api"

// LeaseAcks are the subjects on which leases are acknowledged: the one in use,
// and the one that a later server may use.
func (r Run) LeaseAcks() []string {
	stream := r.StreamName(Tasks)
	return []string{"$JS.ACK." + stream + "." + TaskConsumer + ".>", "$JS.ACK.*.*." + stream + "." + TaskConsumer + ".>"}
}

// InboxPrefix is where answers for the credential of that name come.
func InboxPrefix(name string) string { return "_INBOX." + name }

// LeaseSubject is where a producer with an account of its own asks the run's
// lease desk for tasks; "*" stands for all of them.
func (r Run) LeaseSubject(producer string) string { return "hr." + string(r) + ".lease." + producer }

// LeaseDesk is the queue group of the desks: each request is one's.
const LeaseDesk = "desks"

// HeaderLease is where a lease that comes from a desk is acknowledged. A lease
// from the queue has it as its reply subject, which nobody but the server may set.
const HeaderLease = "Hr-Lease"

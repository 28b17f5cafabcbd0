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

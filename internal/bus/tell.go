package bus

// Tell publishes what a role says of itself: its gauges and spans. Nobody waits
// for it, and where it gets lost the next one says more. A mute connection
// ([Options.Mute]) says nothing.
func (c *Conn) Tell(subject string, data []byte) error {
	if c.mute {
		return nil
	}
	return c.nc.Publish(subject, data)
}

// Mute reports whether Tell says nothing, so that there is nothing to note either.
func (c *Conn) Mute() bool { return c.mute }

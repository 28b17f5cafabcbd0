package trainerbridge

import (
	"strings"
	"testing"
)

func TestConfig_AnOpenPortNeedsAToken(t *testing.T) {
	for address, open := range map[string]bool{
		"unix:/tmp/feed.sock": false, "tcp:127.0.0.1:0": false, "tcp:localhost:7000": false, "tcp:[::1]:7000": false,
		"tcp:0.0.0.0:7000": true, "tcp::7000": true, "tcp:10.0.0.7:7000": true, "tcp:trainer.internal:7000": true,
	} {
		c := Config{Listen: []string{address}}
		err := c.guarded()
		if refused := err != nil && strings.Contains(err.Error(), "HEADRACE_FEED_TOKEN"); refused != open {
			t.Errorf("%s without a token: %v, want refused %v", address, err, open)
		}
		c.Token = "secret"
		if err := c.guarded(); err != nil {
			t.Errorf("%s with a token: %v", address, err)
		}
	}
}

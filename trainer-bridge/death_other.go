//go:build !linux

package trainerbridge

import (
	"net"
	"time"
)

// detectDeath makes a silent peer's connection fail within some ten seconds.
func detectDeath(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3})
	}
}

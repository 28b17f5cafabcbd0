package trainerbridge

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// detectDeath makes a silent peer's connection fail within some ten seconds,
// whether it owes an answer or not. A Unix socket tells by itself.
func detectDeath(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3})
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 12_000)
	})
}

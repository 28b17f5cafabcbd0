package feed

import (
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// WriteWithFile writes a frame whose header carries a descriptor.
func WriteWithFile(c *net.UnixConn, frame []byte, file *os.File) error {
	if _, _, err := c.WriteMsgUnix(frame[:HeaderBytes], unix.UnixRights(int(file.Fd())), nil); err != nil {
		return err
	}
	_, err := c.Write(frame[HeaderBytes:])
	return err
}

// readWithFile reads a frame and the descriptor attached to its header, nil if
// there is none.
func readWithFile(c *net.UnixConn, lim Limits) (Frame, *os.File, error) {
	head, oob := make([]byte, HeaderBytes), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := c.ReadMsgUnix(head, oob)
	if err != nil {
		return Frame{}, nil, err
	}
	if n == 0 {
		return Frame{}, nil, io.EOF
	}
	file, err := attached(oob[:oobn])
	if err == nil {
		_, err = io.ReadFull(c, head[n:])
	}
	var f Frame
	if err == nil {
		f, err = readRest(c, head, lim)
	}
	if err != nil && file != nil {
		_ = file.Close()
	}
	return f, file, err
}

func attached(oob []byte) (*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read descriptor: %w", err)
	}
	var fds []int
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		fds = append(fds, got...)
	}
	if len(fds) == 0 {
		return nil, nil
	}
	for _, fd := range fds[1:] {
		_ = unix.Close(fd)
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "ring"), nil
}

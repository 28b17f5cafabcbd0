package app

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/natstest"
)

func TestHealth_IsThatOfTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := natstest.InProcess(t)
		conn := natstest.Connect(t, server)
		file := filepath.Join(t.TempDir(), "health")
		if _, err := Health(file); err == nil {
			t.Error("healthy before it began")
		}
		stop := heartbeat(conn, file, zerolog.Nop())
		for range 3 {
			time.Sleep(beatOld)
			if age, err := Health(file); err != nil || age > beatEvery {
				t.Errorf("%s, %v; want a fresh heartbeat", age, err)
			}
		}
		server.Shutdown()
		time.Sleep(beatOld + beatEvery)
		if age, err := Health(file); err == nil {
			t.Errorf("healthy %s after the last answer", age)
		}
		stop()
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("a heartbeat outlives its role: %v", err)
		}
	})
}

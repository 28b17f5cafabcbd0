package hostile

import "testing"

func TestRun_Calm(t *testing.T) {
	newWorld(t, nil).play(nil).untouched()
}

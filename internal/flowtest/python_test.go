//go:build whole

package flowtest

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/headrace/headrace/trainer-bridge/layout"
)

// reader is a trainer in Python that looks at every token.
const reader = `
import sys, headrace
feed = headrace.connect(sys.argv[1], transport=sys.argv[2], verify=True)
for batch in feed:
    total = int(batch.tokens.sum(dtype="int64"))
    feed.commit(batch.step, tokens=batch.token_count)
    print("step", batch.step, "rows", batch.rows, "tokens", batch.token_count, flush=True)
feed.flush()
print("end", feed.end_steps, flush=True)
feed.close()
`

// TestMemory_ThePythonFeed reads batches of 32 x 100,000 tokens in Python, from
// shared memory and from a stream: it takes the ring, or two batches, and numpy.
func TestMemory_ThePythonFeed(t *testing.T) {
	const tokens, steps = 100_000, 6
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"memfd", "stream"} {
		t.Run(transport, func(t *testing.T) {
			w, _ := newWorldApart(t, 8*mib)
			s := spec{GroupSize: 8, Groups: 4, Steps: steps, Staleness: 1, Slots: 16, Bucket: tokens, Rows: 32, Listen: w.address(), CacheBytes: 32 * mib}
			w.process(t, order{Role: "grouper", Spec: s})
			bridge := w.process(t, order{Role: "bridge", Spec: s})
			w.process(t, order{Role: "publisher", Spec: s, Held: 8 * mib, Tokens: tokens})
			python := cmp.Or(os.Getenv("HEADRACE_PYTHON"), filepath.Join(root, ".venv", "bin", "python"))
			cmd := exec.Command(python, "-c", reader, s.Listen, transport)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "trainer-bridge", "python"))
			feed := launch(t, "feed", cmd)
			feed.say("step 6 rows 32 tokens 3200000", 2*time.Minute)
			slot := layout.Config{Buckets: []int{s.Bucket}, Rows: s.Rows, MaxRows: s.Rows}.SlotBytes()
			feed.within(fixed+2*slot+slot/2, transport+": two batches, and what sums them")
			bridge.within(s.bridgeBound(tokens*8), "cache, pulls, ring")
		})
	}
}

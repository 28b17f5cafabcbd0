package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headrace/headrace/subjects"
)

func TestOtel_OfAStoppedRun(t *testing.T) {
	p := newPlace(t)
	root := p.stopped(t, &subjects.Entry{V: 1, At: 1})
	var asked atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer collector.Close()
	out, _ := run(t, exitOK, "otel", "lake", "--dir", root, "--seq", "1..", "--endpoint", collector.URL)
	if !strings.Contains(out, "sent 0 trajectories as 0 spans in 0 requests") || asked.Load() != 0 {
		t.Errorf("%s, %d requests", out, asked.Load())
	}
	out, _ = run(t, exitOK, "otel", "lake", "--dir", root, "--since", "10m", "--endpoint", collector.URL, "--json")
	if !strings.Contains(out, `"trajectories": 0`) {
		t.Errorf("%s", out)
	}
}

func TestOtel_RefusesWhatItCannotDo(t *testing.T) {
	for _, args := range [][]string{{"--sample", "2"}, {"--sample", "0"}, {"--step", "0"}, {"--status", "odd"}} {
		run(t, exitUsage, append([]string{"otel", "lake"}, args...)...)
	}
	p := newPlace(t)
	root := p.stopped(t)
	_, errs := run(t, exitFailed, "otel", "lake", "--dir", root, "--endpoint", "localhost:4318", "--seq", "1")
	if !strings.Contains(errs, "want a URL such as http://127.0.0.1:4318") {
		t.Error(errs)
	}
	run(t, exitUsage, "metrics", "Not A Run")
	_, errs = run(t, exitFailed, "metrics", "elsewhere", "--dir", root)
	if !strings.Contains(errs, "no run elsewhere") {
		t.Error(errs)
	}
}

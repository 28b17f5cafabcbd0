package metrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("lake")

// scraped is a page as Prometheus reads it.
type scraped struct {
	kinds, help map[string]string  // by family
	lines       map[string]float64 // by name and labels, but for the run's; of a histogram its count
}

// scrape reads a page, and holds it to the naming rules.
func scrape(t *testing.T, p *Page, c *bus.Conn) scraped {
	t.Helper()
	s := httptest.NewServer(promhttp.HandlerFor(p.registry(c), promhttp.HandlerOpts{}))
	defer s.Close()
	res, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %.400s", res.Status, err, text)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	return parse(t, text)
}

func parse(t *testing.T, text []byte) scraped {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out := scraped{map[string]string{}, map[string]string{}, map[string]float64{}}
	for name, f := range families {
		out.kinds[name], out.help[name] = strings.ToLower(f.GetType().String()), f.GetHelp()
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				if l.GetName() != "run" {
					key += "," + l.GetName() + "=" + l.GetValue()
				}
			}
			out.lines[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// lines are a page's values.
func lines(t *testing.T, p *Page, c *bus.Conn) map[string]float64 {
	t.Helper()
	return scrape(t, p, c).lines
}

// everything is a page on which everything in the table has been said.
func everything() *Page {
	p := &Page{Version: "1", Run: run, Reports: NewReports(), Log: NewLog([]string{"frozenlake"}, 10)}
	for _, role := range []string{RoleProducer, RoleGrouper, RoleBridge, RoleEngine} {
		values := map[string]float64{}
		for _, f := range among(role) {
			for i, v := range f.Values {
				values[v.Gauge] = float64(i + 1)
			}
			if f.Prefix != "" {
				values[f.Prefix+"something_new"] = 1
			}
		}
		p.Reports.Report(&subjects.Gauges{V: 1, Role: role, Instance: "a", Values: values})
	}
	fillLog(p.Log)
	p.Asked = &Asked{From: FromUI, Read: func() map[string]map[string]float64 {
		all := map[string]map[string]float64{"headrace_ui_of_no_table": {"": 1}}
		for _, f := range among(FromUI) {
			all[f.Name] = map[string]float64{"": 1}
			if f.Label != "" {
				all[f.Name] = map[string]float64{"": 1, "a browser's own": 1}
			}
			for i, v := range f.Values {
				all[f.Name][v.Label] = float64(i + 1)
			}
		}
		return all
	}}
	return p
}

func fillLog(l *Log) {
	e := subjects.IndexEntry{Kind: subjects.Eval, Group: "e1-0", Status: subjects.Succeeded, Tokens: 12, Environment: "frozenlake", MaxVersion: 3, Segments: 1}
	l.Header([]string{e.String(), "no entry"}, 100)
	l.Entry(&subjects.Entry{Issued: []subjects.Issue{{Kind: subjects.Train, Count: 4}}, Retries: make([]subjects.Retry, 2),
		Verdicts: []subjects.Verdict{{Outcome: subjects.Kept, Opened: 1e9, Closed: 3e9}, {Outcome: "a new one"}},
		Batches: []subjects.Batch{{Step: 5, Rows: 2, Tokens: 20, RewardMean: .5, Groups: []subjects.BatchGroup{{Group: "t0",
			Members: []subjects.Member{{MinVersion: 3, Reward: 1}, {MinVersion: 4}, {MinVersion: subjects.NoVersion}}}}}},
		Evals: []subjects.EvalResult{{Round: 4, Sampled: .25, Greedy: .5}}, End: subjects.EndComplete})
	l.Commit(&subjects.CommitEvent{Step: 5, TrainSeconds: .4, WaitSeconds: 1.5, Tokens: 20, Metrics: map[string]float64{"loss": .1, "mine": 7}})
	l.Checkpoint(&subjects.CheckpointEvent{Step: 4})
	l.Version(&subjects.VersionEvent{Version: 5})
	l.Resumed(&subjects.ResumedEvent{})
	l.Ack(&subjects.AckEvent{Version: 4, LoadSeconds: .2})
	l.Ack(&subjects.AckEvent{Error: "no"})
	l.Trajectory(&subjects.Trajectory{Started: 1e9, Finished: 4e9, Turns: []subjects.Turn{{Queued: 1e9, Generated: 2e9, Stepped: 3e9}, {}}})
	b := subjects.SpanBatch{Role: roleTrainer, Instance: firstRank, At: 5e9}
	b.SetSpans([]subjects.TimeSpan{{Name: "train step", Start: 1e9, Duration: 5e8}, {Name: "something else", Start: 2e9, Duration: 1e9}})
	l.Spans(&b)
	l.Stream(subjects.Tasks, 3, 400, 1<<30)
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within 20 s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func publish(t *testing.T, c *bus.Conn, subject string, m any) {
	t.Helper()
	data, err := subjects.EncodeMessage(m)
	if err == nil {
		err = c.NC().Publish(subject, data)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("publish to %s: %w", subject, err))
	}
}

package metrics

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func TestPage_HasTheWholeTableAndKeepsTheNamingRules(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	page := scrape(t, everything(), c)
	for _, f := range Families() {
		if page.kinds[f.Name] != string(f.Kind) || page.help[f.Name] != f.Help {
			t.Errorf("%s (%s) is a %q on the page, want a %s", f.Name, f.From, page.kinds[f.Name], f.Kind)
		}
		delete(page.kinds, f.Name)
	}
	for name := range page.kinds {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is on the page and not in the table", name)
		}
	}
}

func TestLog_CountsWhatTheLogSays(t *testing.T) {
	l := NewLog([]string{"frozenlake"}, 10)
	fillLog(l)
	got := lines(t, &Page{Run: run, Log: l}, nil)
	for key, want := range map[string]float64{
		"headrace_episodes_total,environment=frozenlake,status=succeeded": 1,
		"headrace_evaluation_episodes_total,status=succeeded":             1,
		"headrace_rollouts_unreadable_total":                              1,
		"headrace_groups_total,outcome=kept":                              1,
		"headrace_groups_total,outcome=other":                             1,
		"headrace_groups_total,outcome=stale":                             0,
		"headrace_staleness_versions":                                     2,
		"headrace_batch_reward,of=std":                                    0.4714045207910317,
		"headrace_step,at=cut":                                            5,
		"headrace_step,at=max":                                            10,
		"headrace_trainer_wait_seconds_total":                             1.5,
		"headrace_trainer_metric,name=loss":                               .1,
		"headrace_trainer_phase_seconds_total,phase=train":                .5,
		"headrace_weight_sync_duration_seconds,phase=load":                1,
		"headrace_weight_sync_failures_total":                             1,
		"headrace_generate_duration_seconds":                              1,
		"headrace_run_ended,reason=complete":                              1,
		"headrace_run_ended,reason=cancelled":                             0,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v (there %v), want %v", key, v, ok, want)
		}
	}
	if _, ok := got["headrace_trainer_metric,name=mine"]; ok {
		t.Error("a name that a user's trainer chose became a label")
	}
}

// TestPage_HostileProducersMakeNoSeries: a thousand producers, each with a name,
// environments, gauges and outcomes of its own making.
func TestPage_HostileProducersMakeNoSeries(t *testing.T) {
	p := everything()
	before := len(lines(t, p, nil))
	for i := range 1000 {
		name := strings.Repeat("x", i%60) + "-\n\"}\\" + string(rune('a'+i%26)) + strings.Repeat("é", i%7)
		values := map[string]float64{"episodes_live": 1, "episodes_" + name: 5, name: 1, "dropped_" + name: 1}
		p.Reports.Report(&subjects.Gauges{Role: RoleProducer, Instance: name, Values: values})
		p.Reports.Report(&subjects.Gauges{Role: name, Instance: name, Values: values})
		e := subjects.IndexEntry{Kind: subjects.Train, Group: "t0", Status: subjects.Failed, Environment: strings.Repeat("e", 1+i%50) + string(rune('a'+i%26)), MinVersion: -1, MaxVersion: -1}
		p.Log.Header([]string{e.String()}, 1)
		p.Log.Entry(&subjects.Entry{End: name, Verdicts: []subjects.Verdict{{Outcome: subjects.Outcome(name)}}})
		p.Log.Commit(&subjects.CommitEvent{Metrics: map[string]float64{name: 1}})
		p.Log.Ack(&subjects.AckEvent{Engine: name, Version: subjects.PolicyVersion(i)})
	}
	after := lines(t, p, nil)
	if len(after)-before > 3 { // one "other" of the environments, and of the ends
		t.Errorf("%d series became %d", before, len(after))
	}
	if v := after["headrace_episodes_total,environment=other,status=failed"]; v != 1000 {
		t.Errorf("%v failed episodes of other environments, want 1000", v)
	}
}

func TestServe_SaysWhenTheAddressIsTaken(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Page{Addr: l.Addr().String(), Run: run}
	if _, err := p.Serve(t.Context(), c, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "another address") {
		t.Errorf("%v, want what to do", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stop, err := p.Serve(t.Context(), c, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/metrics": 200, "/": 200, "/else": 404} {
		res, err := http.Get("http://" + p.Addr + path)
		if err != nil || res.StatusCode != want {
			t.Errorf("%s: %v, %v, want %d", path, res, err, want)
		}
		if err == nil {
			_ = res.Body.Close()
		}
	}
	stop()
	if _, err := http.Get("http://" + p.Addr + "/metrics"); err == nil {
		t.Error("it answers after it was stopped")
	}
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkScrape is one read of a page with every series of a run on it, and a
// thousand producers behind it.
func BenchmarkScrape(b *testing.B) {
	p := everything()
	values := maps.Collect(func(yield func(string, float64) bool) {
		for _, f := range among(RoleProducer) {
			for _, v := range f.Values {
				if !yield(v.Gauge, 1) {
					return
				}
			}
		}
	})
	for i := range 1000 {
		p.Reports.Report(&subjects.Gauges{Role: RoleProducer, Instance: strings.Repeat("p", i+1), Values: values})
	}
	h := promhttp.HandlerFor(p.registry(nil), promhttp.HandlerOpts{})
	req, err := http.NewRequest(http.MethodGet, "/metrics", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(discard{http.Header{}}, req)
	}
}

// BenchmarkReport is what a report of a producer, one a second, costs the page.
func BenchmarkReport(b *testing.B) {
	r := NewReports()
	g := &subjects.Gauges{Role: RoleProducer, Instance: "p", Values: map[string]float64{}}
	for _, f := range among(RoleProducer) {
		for _, v := range f.Values {
			g.Values[v.Gauge] = 1
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Report(g)
	}
}

func TestFamilies_AreNamedOnce(t *testing.T) {
	var names []string
	for _, f := range Families() {
		names = append(names, f.Name)
		if f.Label != "" && len(f.Values) == 0 && f.From != FromStreams && f.Label != "environment,status" {
			t.Errorf("%s: nobody says what its labels may be", f.Name)
		}
	}
	slices.Sort(names)
	if n := len(names); n != len(slices.Compact(names)) {
		t.Error("a name stands in the table twice")
	}
}

// BenchmarkHeader is what a trajectory costs a run's page: its entry in the headers.
func BenchmarkHeader(b *testing.B) {
	l := NewLog([]string{"frozenlake"}, 0)
	e := subjects.IndexEntry{Kind: subjects.Train, Group: "t0", Status: subjects.Succeeded, Tokens: 12, Segments: 1, Environment: "frozenlake", MaxVersion: 3}
	index := []string{e.String()}
	b.ReportAllocs()
	for b.Loop() {
		l.Header(index, 1000)
	}
}

// TestAsked_IsOfTheTableAlone: what a browser may choose is no series, and a page
// of no run says none.
func TestAsked_IsOfTheTableAlone(t *testing.T) {
	got := lines(t, &Page{Asked: everything().Asked}, nil)
	ours := 0
	for key := range got {
		if strings.HasPrefix(key, "headrace_ui_") {
			ours++
		}
	}
	if want := len(UIRoutes) + len(uiFamilies) - 1; ours != want {
		t.Errorf("%d series of the page, want %d: %v", ours, want, got)
	}
	if got["headrace_ui_requests_total,route=runs"] != 2 || got["headrace_ui_streams_open"] != 1 {
		t.Errorf("%v", got)
	}
}

package board

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
)

var update = flag.Bool("update", false, "accept what the scripts print")

// Scripts are testdata/*.txt: a command a line and, below a look at the state,
// indented, what it found. # comments. Times are seconds since the run's start.
//
//	at SECONDS                                     the time from here on
//	issue N      retry N      end REASON TEXT
//	close GROUP OUTCOME MEMBERS [opened=SECONDS] [unused=N] [version=N]
//	batch STEP GROUP...                            of groups that were closed
//	commit STEP wait=S train=S [inc=N] [tokens=N] [NAME=METRIC]
//	version N    resumed    checkpoint STEP    stall CODE TEXT
//	ack ENGINE VERSION [load=S] [error=TEXT]      engines NAME=VERSION...
//	gauges ROLE INSTANCE [text=TEXT] NAME=VALUE...
//	spans NAME FROM TO ...                         of the trainer
//	size STREAM MESSAGES BYTES
//	show PATH...                                   parts of the state, as in trainer.seconds
//	steps FROM   series SPAN                       columns
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("says otherwise; -update accepts:\n%s", got)
			}
		})
	}
}

// script is a board that commands are read to.
type script struct {
	t      *testing.T
	b      *Board
	now    time.Time
	closed map[string]subjects.Verdict
}

func runScript(t *testing.T, text string) string {
	s := script{t: t, b: New(Config{Run: "lake-1", Recipe: "lake", Started: began, MaxSteps: 10, MaxStaleness: 1}), now: began, closed: map[string]subjects.Verdict{}}
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // what was found before
		}
		fmt.Fprintln(&out, line)
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			out.WriteString(s.do(words[0], words[1:]))
		}
	}
	return out.String()
}

// options are the words NAME=VALUE of a command.
func options(words []string) (plain []string, named map[string]string) {
	named = map[string]string{}
	for _, w := range words {
		if name, value, ok := strings.Cut(w, "="); ok {
			named[name] = value
		} else {
			plain = append(plain, w)
		}
	}
	return plain, named
}

func (s *script) number(text string) float64 {
	if text == "" {
		return 0
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatalf("number %q", text)
	}
	return x
}

func (s *script) do(command string, words []string) string {
	args, named := options(words)
	num := func(i int) int {
		if i >= len(args) {
			s.t.Fatalf("%s %v: want more", command, words)
		}
		return int(s.number(args[i]))
	}
	entry := func(e subjects.Entry) { e.At = s.now.UnixNano(); s.b.Entry(&e) }
	switch command {
	case "at":
		s.now = second(s.number(args[0]))
	case "issue":
		entry(subjects.Entry{Issued: []subjects.Issue{{Kind: subjects.Train, Count: num(0)}}})
	case "retry":
		entry(subjects.Entry{Retries: make([]subjects.Retry, num(0))})
	case "end":
		entry(subjects.Entry{End: args[0], EndText: strings.Join(args[1:], " ")})
	case "close":
		v := s.verdict(args, named)
		s.closed[args[0]] = v
		entry(subjects.Entry{Verdicts: []subjects.Verdict{v}})
	case "batch":
		entry(subjects.Entry{Batches: []subjects.Batch{s.batch(args)}})
	case "commit":
		s.commit(num(0), named)
	case "version":
		s.b.Version(&subjects.VersionEvent{Version: subjects.PolicyVersion(num(0))})
	case "resumed":
		s.b.ResumedTrainer(&subjects.ResumedEvent{})
	case "checkpoint":
		s.b.Checkpoint(&subjects.CheckpointEvent{Step: subjects.Step(num(0))})
	case "stall":
		s.b.Stands(&subjects.Stall{Code: subjects.StallCode(args[0]), Text: strings.Join(args[1:], " "), Since: s.now.UnixNano()})
	case "ack":
		s.b.Ack(&subjects.AckEvent{Engine: args[0], Version: subjects.PolicyVersion(num(1)), LoadSeconds: s.number(named["load"]), Error: named["error"], At: s.now.UnixNano()})
	case "engines":
		s.registry(named)
	case "gauges":
		s.gauges(args, named)
	case "spans":
		s.spans(words)
	case "size":
		s.b.Streams(map[subjects.Stream]Size{subjects.Stream(args[0]): {uint64(num(1)), uint64(num(2))}})
	case "show":
		return s.show(args)
	case "steps":
		return s.print(s.b.Steps(int64(num(0))))
	case "series":
		return s.print(s.b.Series(num(0)))
	default:
		s.t.Fatalf("no command %s", command)
	}
	return ""
}

func (s *script) verdict(args []string, named map[string]string) subjects.Verdict {
	v := subjects.Verdict{Group: subjects.GroupID(args[0]), Outcome: subjects.Outcome(args[1]), Unused: int(s.number(named["unused"])),
		Opened: second(s.number(named["opened"])).UnixNano(), Closed: s.now.UnixNano()}
	for i := range int(s.number(args[2])) {
		v.Members = append(v.Members, subjects.Member{Slot: subjects.Slot(i), Length: 100, Tokens: 10, Reward: float64(i % 2), MinVersion: subjects.PolicyVersion(s.number(named["version"]))})
	}
	return v
}

func (s *script) batch(args []string) subjects.Batch {
	b := subjects.Batch{Step: subjects.Step(s.number(args[0])), RewardMean: .5}
	for _, g := range args[1:] {
		m := s.closed[g].Members
		b.Groups = append(b.Groups, subjects.BatchGroup{Group: subjects.GroupID(g), Members: m})
		b.Rows, b.Tokens = b.Rows+len(m), b.Tokens+10*len(m)
	}
	return b
}

func (s *script) commit(step int, named map[string]string) {
	e := subjects.CommitEvent{Step: subjects.Step(step), Incarnation: 1, At: s.now.UnixNano(), Metrics: map[string]float64{}}
	for name, text := range named {
		switch x := s.number(text); name {
		case "wait":
			e.WaitSeconds = x
		case "train":
			e.TrainSeconds = x
		case "inc":
			e.Incarnation = int(x)
		case "tokens":
			e.Tokens = int64(x)
		default:
			e.Metrics[name] = x
		}
	}
	s.b.Commit(&e)
}

func (s *script) registry(named map[string]string) {
	list := []subjects.EngineRecord{}
	for name, version := range named {
		list = append(list, subjects.EngineRecord{Engine: name, URL: "http://" + name, Version: subjects.PolicyVersion(s.number(version)), Ready: true})
	}
	s.b.Engines(list)
}

func (s *script) gauges(args []string, named map[string]string) {
	g := subjects.Gauges{Role: args[0], Instance: args[1], At: s.now.UnixNano(), Text: named["text"], Values: map[string]float64{}}
	for name, text := range named {
		if name != "text" {
			g.Values[name] = s.number(text)
		}
	}
	s.b.Report(&g, s.now)
}

func (s *script) spans(words []string) {
	b := subjects.SpanBatch{Role: "trainer", Instance: "rank0", At: began.UnixNano()}
	var list []subjects.TimeSpan
	for ; len(words) >= 3; words = words[3:] {
		from, to := second(s.number(words[1])), second(s.number(words[2]))
		lane := int32(0)
		if words[0] == "compile" {
			lane = 1
		}
		list = append(list, subjects.TimeSpan{Name: strings.ReplaceAll(words[0], "_", " "), Lane: lane, Start: from.UnixNano(), Duration: int64(to.Sub(from))})
	}
	b.SetSpans(list)
	s.b.Spans(&b, s.now)
}

func (s *script) show(paths []string) (out string) {
	text, err := json.Marshal(s.b.State(s.now))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range paths {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			s.t.Fatal(err)
		}
		for _, key := range strings.Split(path, ".") {
			switch x := v.(type) {
			case map[string]any:
				v = x[key]
			case []any:
				v = x[int(s.number(key))]
			}
		}
		out += "  " + path + strings.TrimPrefix(s.print(v), " ")
	}
	return out
}

func (s *script) print(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return "  " + string(text) + "\n"
}

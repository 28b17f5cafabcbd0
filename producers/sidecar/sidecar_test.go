package sidecar_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/producers/sidecar"
	"github.com/headrace/headrace/subjects"
)

const run subjects.Run = "lake"

// stage is a run on a real server with one engine and its sidecar.
type stage struct {
	t      *testing.T
	conn   *bus.Conn
	engine *sglangtest.Server
	acks   chan subjects.AckEvent
	stop   func()
	log    zerolog.Logger // nothing unless a test wants it
}

func open(t *testing.T, version string) *stage {
	s := &stage{t: t, conn: natstest.Connect(t, natstest.InProcess(t)), engine: sglangtest.Start(t, version), acks: make(chan subjects.AckEvent, 16)}
	if err := bus.EnsureStreams(t.Context(), s.conn, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := bus.PutRun(t.Context(), s.conn, &subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = bus.Follow(ctx, s.conn, run.StreamName(subjects.Weights), run.AckSubject("e1"), 1, func(m *bus.Msg) error {
			var ack subjects.AckEvent
			err := subjects.DecodeMessage(m.Data, &ack)
			s.acks <- ack
			return err
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// start starts the sidecar; stop ends it and checks that it ended well.
func (s *stage) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- sidecar.Run(ctx, s.conn, sidecar.Config{Run: run, Engine: "e1", URL: s.engine.URL, Poll: 5 * time.Millisecond, Observe: 5 * time.Millisecond, Log: s.log})
	}()
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				s.t.Errorf("sidecar: %v", err)
			}
		}
	}
	s.t.Cleanup(s.stop)
}

// publish makes weights of a version and announces them.
func (s *stage) publish(version subjects.PolicyVersion, incarnation int, spoil ...func(*subjects.VersionEvent)) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), fmt.Sprint(version))
	data := []byte(fmt.Sprintf("weights %d", version))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), data, 0o644); err != nil {
		s.t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	e := &subjects.VersionEvent{V: 1, Version: version, Incarnation: incarnation, Dir: dir, Format: "safetensors",
		Files: []subjects.File{{Name: "model.safetensors", Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}}}
	for _, f := range spoil {
		f(e)
	}
	body, err := subjects.EncodeMessage(e)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := bus.Send(s.t.Context(), s.conn, run.WeightsSubject(subjects.EventVersion), fmt.Sprint(version, incarnation), nil, body); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) ack() subjects.AckEvent {
	s.t.Helper()
	select {
	case a := <-s.acks:
		return a
	case <-time.After(20 * time.Second):
		s.t.Fatal("no ack")
		return subjects.AckEvent{}
	}
}

func (s *stage) acksVersion(version subjects.PolicyVersion) subjects.AckEvent {
	s.t.Helper()
	a := s.ack()
	if a.Error != "" || a.Version != version || a.Engine != "e1" {
		s.t.Fatalf("ack %+v, want version %d", a, version)
	}
	return a
}

// registered waits for a registry entry.
func (s *stage) registered(version subjects.PolicyVersion, ready bool) {
	s.t.Helper()
	sglangtest.Eventually(s.t, fmt.Sprintf("entry of version %d, ready %v", version, ready), func() bool {
		list, err := bus.Engines(s.t.Context(), s.conn, run)
		return err == nil && len(list) == 1 && list[0].Version == version && list[0].Ready == ready && list[0].URL == s.engine.URL
	})
}

func TestSidecar_LoadsAVersionPausedAndVerified(t *testing.T) {
	s := open(t, "")
	s.start()
	s.registered(subjects.NoVersion, false)
	s.publish(0, 1)
	a := s.acksVersion(0)
	if a.Incarnation != 1 || a.LoadSeconds <= 0 || a.At == 0 {
		t.Errorf("ack %+v", a)
	}
	s.registered(0, true)
	s.publish(1, 1)
	s.acksVersion(1)
	want := []string{"/pause_generation", "/update_weights_from_disk", "/flush_cache", "/continue_generation"}
	if log := s.engine.Log(); !slices.Equal(log[len(log)-4:], want) {
		t.Errorf("the engine was told %v, want %v", log, want)
	}
	s.registered(1, true)
}

func TestSidecar_LateEngineReadsTheLatestOnly(t *testing.T) {
	s := open(t, "")
	for v := range subjects.PolicyVersion(5) {
		s.publish(v, 1)
	}
	s.start()
	s.acksVersion(4)
	if n := strings.Count(strings.Join(s.engine.Log(), " "), "update_weights"); n != 1 {
		t.Errorf("%d loads for one engine that is late", n)
	}
}

func TestSidecar_FilesThatDifferAreNotLoaded(t *testing.T) {
	for name, spoil := range map[string]func(*subjects.VersionEvent){
		"checksum": func(e *subjects.VersionEvent) { e.Files[0].SHA256 = strings.Repeat("0", 64) },
		"size":     func(e *subjects.VersionEvent) { e.Files[0].Bytes++ },
		"missing":  func(e *subjects.VersionEvent) { e.Files[0].Name = "other" },
		"escape":   func(e *subjects.VersionEvent) { e.Files[0].Name = "../model.safetensors" },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, "")
			s.start()
			s.publish(1, 1)
			s.acksVersion(1)
			before := len(s.engine.Log())
			s.publish(2, 1, spoil)
			if a := s.ack(); a.Error == "" || a.Version != 2 {
				t.Errorf("ack %+v, want an error", a)
			}
			if log := s.engine.Log(); len(log) != before {
				t.Errorf("the engine was told %v", log[before:])
			}
			s.registered(1, true)
		})
	}
}

func TestSidecar_FailedLoadLeavesTheEngineRunningOnOldWeights(t *testing.T) {
	s := open(t, "")
	s.start()
	s.publish(1, 1)
	s.acksVersion(1)
	s.engine.SetFailUpdate("out of memory")
	s.publish(2, 1)
	if a := s.ack(); !strings.Contains(a.Error, "out of memory") {
		t.Errorf("ack %+v", a)
	}
	if version, paused := s.engine.State(); version != "1" || paused {
		t.Errorf("engine serves %s, paused %v", version, paused)
	}
	s.registered(1, true)
	s.engine.SetFailUpdate("")
	s.acksVersion(2) // tried again by itself
	s.registered(2, true)
}

func TestSidecar_RestartedEngineIsLoadedAgain(t *testing.T) {
	s := open(t, "")
	s.start()
	s.publish(3, 1)
	s.acksVersion(3)
	s.engine.SetDown(true)
	s.registered(subjects.NoVersion, false)
	s.engine.Restart()
	s.engine.SetDown(false)
	s.acksVersion(3)
	s.registered(3, true)
}

func TestSidecar_SameWeightsUnderTheNextIncarnationAreOnlyAcked(t *testing.T) {
	s := open(t, "")
	s.start()
	s.publish(3, 1)
	s.acksVersion(3)
	before := len(s.engine.Log())
	s.publish(3, 2)
	if a := s.acksVersion(3); a.Incarnation != 2 {
		t.Errorf("ack %+v", a)
	}
	if log := s.engine.Log(); len(log) != before {
		t.Errorf("the engine was told %v", log[before:])
	}
}

func TestSidecar_OtherWeightsOfTheSameVersionAreLoaded(t *testing.T) {
	s := open(t, "3") // weights of another run, by chance of the same number
	s.start()
	s.registered(3, false)
	s.publish(3, 1)
	s.acksVersion(3)
	if !slices.Contains(s.engine.Log(), "/update_weights_from_disk") {
		t.Error("they are taken for the run's")
	}
}

func TestSidecar_ResumesAnEngineThatAKilledOneLeftPaused(t *testing.T) {
	s := open(t, "")
	if _, err := s.engine.Client().Post(s.engine.URL+"/pause_generation", "application/json", strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	s.start()
	sglangtest.Eventually(t, "the engine runs", func() bool { _, paused := s.engine.State(); return !paused })
}

func TestSidecar_LeavesTheRegistry(t *testing.T) {
	s := open(t, "")
	s.start()
	s.publish(1, 1)
	s.registered(1, true)
	s.stop()
	if list, err := bus.Engines(t.Context(), s.conn, run); err != nil || len(list) != 0 {
		t.Errorf("still registered: %v, %v", list, err)
	}
}

func TestSidecar_RefusesBadConfiguration(t *testing.T) {
	s := open(t, "")
	for name, cfg := range map[string]sidecar.Config{
		"engine name": {Run: run, Engine: "a.b", URL: s.engine.URL},
		"pause mode":  {Run: run, Engine: "e1", URL: s.engine.URL, Pause: "gently"},
		"address":     {Run: run, Engine: "e1", URL: "localhost"},
		"run":         {Run: "nowhere", Engine: "e1", URL: s.engine.URL},
	} {
		if err := sidecar.Run(t.Context(), s.conn, cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

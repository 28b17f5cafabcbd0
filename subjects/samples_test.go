package subjects

// The trajectories and messages that the golden vectors hold.

// plain is a two-turn episode: prompt 1..4, action 5 6, observation 7 8, action 9 2.
func plain() *Trajectory {
	return &Trajectory{
		Kind: Train, Group: "t17", Slot: 3, Attempt: 1,
		Environment: "frozenlake", Seed: -42, Producer: "p-a1", Engine: "eng-0", Tokenizer: "words-1f2e",
		Sampling: Sampling{Temperature: 1, TopP: 0.95, TopK: 40, MaxNewTokens: 16, Seed: 1<<64 - 1},
		Status:   Succeeded, Reward: 0.75, Components: map[string]float64{"goal": 1, "steps": -0.25},
		Started: 1_800_000_000_000_000_001, Finished: 1_800_000_001_500_000_002,
		Segments: []Segment{{
			Tokens:   []int32{1, 300, 70000, 4, 5, 6, 7, 8, 9, 2},
			Logprobs: []float32{-0.5, -1.25, -0.001, 0},
			Versions: []VersionSpan{{4, 6, 11}, {8, 10, 12}},
			LossMask: []Span{{4, 6}, {8, 10}},
			Parent:   -1,
		}},
		Turns: []Turn{
			{Segment: 0, Prompt: Span{0, 4}, Completion: Span{4, 6}, Queued: 1_800_000_000_000_000_010,
				Generated: 1_800_000_000_400_000_000, Stepped: 1_800_000_000_400_100_000, Finish: "stop"},
			{Segment: 0, Prompt: Span{6, 8}, Completion: Span{8, 10}, Queued: 1_800_000_000_400_200_000,
				Generated: 1_800_000_001_000_000_000, Stepped: 1_800_000_001_000_100_000, Cached: 6, Finish: "length", Reward: 0.75},
		},
		Messages: []Message{{Role: "user", Content: "S F F G"}, {Role: "assistant", Content: "right"}},
	}
}

// fork is an episode whose history was rewritten once.
func fork() *Trajectory {
	t := plain()
	t.Slot, t.Attempt, t.Status, t.Reason = 0, 0, Truncated, "turn limit 2"
	t.Segments = append(t.Segments, Segment{
		Tokens:   []int32{1, 300, 70000, 4, 10, 11, 12},
		Logprobs: []float32{-2.5, -0.125},
		Versions: []VersionSpan{{5, 7, 12}},
		LossMask: []Span{{6, 7}}, // token 5 was sampled but is not trained on
		Parent:   0, Shared: 4,
	})
	t.Turns[1].Segment, t.Turns[1].Prompt, t.Turns[1].Completion = 1, Span{4, 5}, Span{5, 7}
	return t
}

func failed() *Trajectory {
	t := plain()
	t.Slot, t.Status, t.Reason, t.Reward, t.Components = 5, Failed, "engine eng-0: status 503", 0, nil
	t.Turns[1] = Turn{Queued: 1_800_000_000_400_200_000}
	t.Segments[0].Tokens = t.Segments[0].Tokens[:6]
	t.Segments[0].Logprobs = t.Segments[0].Logprobs[:2]
	t.Segments[0].Versions, t.Segments[0].LossMask = t.Segments[0].Versions[:1], t.Segments[0].LossMask[:1]
	return t
}

// bare has nothing but what is required.
func bare() *Trajectory {
	return &Trajectory{Kind: Train, Group: "g", Environment: "e", Status: Aborted, Reason: "run ended"}
}

func tool() *Trajectory {
	t := plain()
	t.Environment, t.Task = "calculator", []byte(`{"question":"7 × 6 = ?"}`)
	t.Messages = []Message{
		{Role: "system", Content: "Rechne sorgfältig. 仔细计算。"},
		{Role: "assistant", Content: "<tool>7*6</tool> 🙂"},
		{Role: "tool", Name: "calculator", Content: "42 ✓"},
	}
	return t
}

func greedy() *Trajectory {
	t := plain()
	t.Kind, t.Group, t.Round, t.Slot, t.Attempt = Eval, EvalGroup(30, 7), 30, 0, 0
	t.Sampling = Sampling{MaxNewTokens: 16}
	return t
}

func trajectories() map[string]*Trajectory {
	return map[string]*Trajectory{
		"plain": plain(), "fork": fork(), "failed": failed(), "bare": bare(), "tool": tool(), "greedy": greedy(),
	}
}

func member(slot Slot) Member {
	return Member{Slot: slot, Attempt: 1, Seq: 1 << 40, Index: 3, Offset: 4096, Length: 70000, Checksum: 0xfedcba98,
		Status: Overlong, Reward: -0.5, Segments: 2, Tokens: 4000, Longest: 2500, MinVersion: 11, MaxVersion: 12,
		Advantage: 1.5, Masked: true}
}

func entry() *Entry {
	m := []Member{member(0), {Slot: 1, Status: Succeeded, Reward: 1, MinVersion: NoVersion, MaxVersion: NoVersion}}
	return &Entry{
		V: 1, At: 1_800_000_000_000_000_000, Writer: "grouper-7", Rollouts: 1000, Weights: 20, Low: 900, Snapshot: 8,
		State:   []byte{0, 1, 0xff},
		Issued:  []Issue{{Kind: Train, First: 128, Count: 16, Step: 7}, {Kind: Eval, Count: 100, Round: 10, Step: 7}},
		Retries: []Retry{{Kind: Train, Group: "t4", Slot: 2, Attempt: 1, Reason: "engine gone"}},
		Verdicts: []Verdict{{Group: "t3", Outcome: Kept, Members: m, Unused: 1, Opened: 5, Closed: 9},
			{Group: "t4", Outcome: Expired, Opened: 5, Closed: 1_000_000}},
		Batches: []Batch{{Step: 8, Groups: []BatchGroup{{Group: "t3", Environment: "frozenlake", Members: m}},
			Rows: 3, Tokens: 4100, Longest: 2500, Watermark: 950, StalenessMean: 0.5, StalenessMax: 1, RewardMean: 0.25}},
		Evals: []EvalResult{{Round: 10, Tasks: 100, Sampled: 0.5, Greedy: 0.625, Failed: 1, MinVersion: 10, MaxVersion: 11}},
		End:   "complete",
	}
}

// messages are pointers to one message of every type.
func messages() map[string]any {
	return map[string]any{
		"task": &Task{V: 1, Kind: Train, Group: "t17", Slot: 3, Attempt: 1, Environment: "frozenlake", Seed: -42,
			Data: []byte(`{"size":4}`), Sampling: Sampling{Temperature: 1, MaxNewTokens: 16, Seed: 99}, Issued: 1_800_000_000_000_000_000},
		"leased_task": &Task{V: 1, Kind: Eval, Group: "e30-7", Slot: 1, Attempt: 2, Round: 30, Environment: "frozenlake", Issued: 7,
			Token: "qkIuU9Zl2w-_Ab3d"},
		"entry": entry(),
		"version": &VersionEvent{V: 1, Version: 12, Step: 12, Incarnation: 2, Dir: "/runs/a/weights/v12", Format: "safetensors",
			Files: []File{{Name: "model.safetensors", Bytes: 1 << 33, SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}, At: 7},
		"commit": &CommitEvent{V: 1, Step: 12, Incarnation: 2, Tokens: 65536, TrainSeconds: 0.5, WaitSeconds: 0.0625,
			Metrics: map[string]float64{"loss": -0.125, "kl": 0.001, "entropy": 1.5}, At: 7},
		"checkpoint": &CheckpointEvent{V: 1, Step: 10, Incarnation: 2, Path: "/runs/a/checkpoints/10", At: 7},
		"resumed":    &ResumedEvent{V: 1, Step: 10, Incarnation: 3, At: 7},
		"purged":     &PurgedEvent{V: 1, Below: 4097, Step: 10, Incarnation: 3, Writer: "host-7", At: 7},
		"ack": &AckEvent{V: 1, Engine: "eng-0", Version: 12, Incarnation: 2, Error: "checksum of model.safetensors differs",
			PauseSeconds: 0.25, LoadSeconds: 0.5, VerifySeconds: 0.125, ResumeSeconds: 0.0625, At: 7},
		"gauges": &Gauges{V: 1, Role: "produce", Instance: "p-a1", At: 7,
			Values: map[string]float64{"live_episodes": 4000, "tokens_per_s": 12345.5}, Text: "waiting for an engine"},
		"holding": &Gauges{V: 1, Role: "produce", Instance: "p-a1", At: 7, Values: map[string]float64{"leases_held": 2},
			Leases: []HeldLease{{Task: "t41/0/0", Age: 95.5}, {Task: "e30-7/1/2", Age: 0.25}}},
		"stall": &Stall{V: 1, Stage: StageProducer, Code: SlotsLeased, Text: "3 slots of group t41, leased to producer p-a1, last heartbeat 95 s ago",
			Since: 7, At: 95_000_000_007},
		"spans": spanBatch(),
		"end":   &Entry{V: 1, At: 9, Writer: "grouper-7", Rollouts: 1000, Weights: 20, Low: 900, End: EndNoProducers, EndText: "no producer is connected"},
	}
}

func timeSpans() []TimeSpan {
	return []TimeSpan{
		{Name: "turn", Lane: 3, Start: 1_800_000_000_000_000_100, Duration: 500, Flow: FlowID("t17", 3, 1)},
		{Name: "generate", Lane: 3, Start: 1_800_000_000_000_000_100, Duration: 400, Flow: FlowID("t17", 3, 1),
			Args: []TimeSpanArg{{Key: "tokens", Value: 16}, {Key: "generate", Value: -0.5}}},
		{Name: "turn", Start: 1_800_000_000_000_000_050},
	}
}

func spanBatch() *SpanBatch {
	b := &SpanBatch{V: 1, Role: "produce", Instance: "p-a1", At: 1_800_000_001_000_000_000, Offset: -1_500_000, Uncertainty: 40_000, Dropped: 7}
	b.SetSpans(timeSpans())
	return b
}

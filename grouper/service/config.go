// Package service folds the log of a run into groups and batches: the grouper
// as a process.
//
// One idea explains its shape: one goroutine owns the pure core of package
// grouper, and a decision has no effect before it is in the ledger. Whatever
// goes wrong in between, be it a crash, a lost connection or a second grouper
// that wrote first, the answer is the same: forget the core, read the log, go on.
package service

import (
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/watchdog"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Config is what a grouper needs.
type Config struct {
	// Conn is the connection to the bus; the caller closes it.
	Conn *bus.Conn
	// Run whose streams exist.
	Run subjects.Run
	// Grouper is the policy. Its Environments, if any, are the mix.
	Grouper grouper.Config
	// Dataset of the run's environment; nil with external groups.
	Dataset *dataset.Dataset
	// Environment is the name that tasks carry, without a mix.
	Environment string
	// Mix has a dataset for each of Grouper.Environments, in their order.
	Mix []*dataset.Dataset
	// Sampling of every training episode; its Seed is mixed with the task's name.
	Sampling subjects.Sampling
	// Writer names this instance in the ledger and in telemetry.
	Writer string
	// Standby is how long this grouper holds back after another one wrote
	// first, doubled up to five times as long. Default 1s.
	Standby time.Duration
	// Watchdog says when a run that stands still is reported, and when it ends.
	Watchdog watchdog.Config
	Log      zerolog.Logger

	finish *wish // how the run is to end, from the start on
}

// source is where the tasks of one environment come from.
type source struct {
	name string
	data *dataset.Dataset
}

func (c *Config) sources() ([]source, error) {
	if c.Grouper.Source == grouper.SourceExternal || c.finish != nil {
		return nil, nil
	}
	if len(c.Grouper.Environments) == 0 {
		if c.Dataset == nil {
			return nil, errors.New("grouper without a dataset")
		}
		return []source{{c.Environment, c.Dataset}}, nil
	}
	if len(c.Mix) != len(c.Grouper.Environments) {
		return nil, errors.New("grouper without a dataset for each environment of the mix")
	}
	var out []source
	for i, e := range c.Grouper.Environments {
		out = append(out, source{e.Name, c.Mix[i]})
	}
	return out, nil
}

func (c *Config) supply(sources []source) grouper.Supply {
	s := grouper.Supply{Train: make([]uint64, max(1, len(c.Grouper.Environments)))}
	for i := range sources {
		s.Train[i] = sources[i].data.Groups()
	}
	return s
}

// task is what a producer is told of an episode. It follows from the recipe
// and the episode's name alone.
func (s *service) task(p *grouper.Play) *subjects.Task {
	src := s.sources[p.Env]
	t := &subjects.Task{V: subjects.SchemaVersion, Kind: p.Kind, Group: p.Group, Slot: p.Slot, Attempt: p.Attempt, Round: p.Round,
		Environment: src.name, Sampling: s.cfg.Sampling, Issued: p.Issued}
	var row dataset.Task
	if p.Kind == subjects.Eval {
		row = src.data.Eval(int(p.Task))
	} else {
		row = src.data.Train(p.Task)
	}
	t.Seed, t.Data = row.Seed, row.Data
	if p.Greedy {
		t.Sampling.Temperature, t.Sampling.TopP, t.Sampling.TopK = 0, 0, 0
	}
	t.Sampling.Seed = dataset.Mix(s.cfg.Sampling.Seed, uint64(p.Env), uint64(row.Seed), uint64(p.Round), p.Task, uint64(p.Slot), uint64(p.Attempt))
	return t
}

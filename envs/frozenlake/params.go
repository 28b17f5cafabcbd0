package frozenlake

import (
	"encoding/json"
	"fmt"
)

// Names of maps and observations.
const (
	mapRandom = "random"
	obsNear   = "near"
	obsGrid   = "grid"
)

// standard are Gymnasium's two named maps, and their turn limits there.
var standard = map[string]struct {
	rows  []string
	turns int
}{
	"4x4": {[]string{"SFFF", "FHFH", "FFFH", "HFFG"}, 100},
	"8x8": {[]string{"SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"}, 200},
}

// Params are the parameters of a lake. The zero value is not useful: start
// from DefaultParams.
type Params struct {
	Map         Map        `json:"map" doc:"random (a new map for every seed), 4x4 or 8x8 (Gymnasium's), or a list of rows of the letters S, F, H, G"`
	Size        int        `json:"size" doc:"side of a random map in cells, 2 to 16"`
	Holes       float64    `json:"holes" doc:"probability that a cell of a random map is a hole, 0 to below 1"`
	MinDistance int        `json:"min_distance" doc:"least number of moves from start to goal on a random map; the most is max_turns - 1"`
	MaxTurns    int        `json:"max_turns" doc:"turn limit, after which the episode is truncated; 0 is 8 on random maps, 200 on 8x8, 100 elsewhere"`
	Slippery    bool       `json:"slippery" doc:"whether a move may go to a side instead"`
	SuccessRate float64    `json:"success_rate" doc:"probability on slippery ice that a move goes where it should, 0 to 1; the rest is split between the two sides"`
	Rewards     [3]float64 `json:"reward_schedule" doc:"reward for reaching goal, hole and ice; an invalid word counts as ice"`
	Observation string     `json:"observation" doc:"near (the four neighbouring cells, and where the goal is) or grid (the whole map)"`
}

// DefaultParams are random 4x4 maps with 15% holes, solid ice and 8 turns.
func DefaultParams() Params {
	return Params{
		Map: Map{Name: mapRandom}, Size: 4, Holes: 0.15, MinDistance: 2,
		SuccessRate: 1.0 / 3.0, Rewards: [3]float64{1, 0, 0}, Observation: obsNear,
	}
}

// Map is a map by name, or by its rows.
type Map struct {
	Name string
	Rows []string
}

// TypeName says what JSON value a Map takes.
func (Map) TypeName() string { return "random, 4x4, 8x8 or a list of rows" }

// UnmarshalJSON reads a name or a list of rows.
func (m *Map) UnmarshalJSON(data []byte) error {
	*m = Map{}
	if json.Unmarshal(data, &m.Name) == nil {
		return nil
	}
	return json.Unmarshal(data, &m.Rows)
}

// MarshalJSON writes what UnmarshalJSON reads.
func (m Map) MarshalJSON() ([]byte, error) {
	if m.Rows != nil {
		return json.Marshal(m.Rows)
	}
	return json.Marshal(m.Name)
}

// resolve checks the parameters, fills in the turn limit, and returns the
// fixed board; nil on random maps.
func (p *Params) resolve() (*board, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if p.Map.Rows == nil && p.Map.Name == mapRandom {
		if p.MaxTurns == 0 {
			p.MaxTurns = 8
		}
		return nil, p.checkRandom()
	}
	rows, turns := p.Map.Rows, 100
	if rows == nil {
		known, ok := standard[p.Map.Name]
		if !ok {
			return nil, fmt.Errorf("parameter map: want %s, not %q", p.Map.TypeName(), p.Map.Name)
		}
		rows, turns = known.rows, known.turns
	}
	if p.MaxTurns == 0 {
		p.MaxTurns = turns
	}
	fixed, err := newBoard(rows)
	if err != nil {
		return nil, fmt.Errorf("parameter map: %w", err)
	}
	return fixed, nil
}

func (p *Params) validate() error {
	switch {
	case p.MaxTurns < 0 || p.MaxTurns > 10_000:
		return fmt.Errorf("parameter max_turns: want 0 to 10000, not %d", p.MaxTurns)
	case !(p.SuccessRate >= 0 && p.SuccessRate <= 1):
		return fmt.Errorf("parameter success_rate: want 0 to 1, not %g", p.SuccessRate)
	case p.Observation != obsNear && p.Observation != obsGrid:
		return fmt.Errorf("parameter observation: want near or grid, not %q", p.Observation)
	}
	return nil
}

func (p *Params) checkRandom() error {
	switch {
	case p.Size < 2 || p.Size > 16:
		return fmt.Errorf("parameter size: want 2 to 16, not %d", p.Size)
	case !(p.Holes >= 0 && p.Holes < 1):
		return fmt.Errorf("parameter holes: want 0 to below 1, not %g", p.Holes)
	case p.MinDistance < 1:
		return fmt.Errorf("parameter min_distance: want 1 or more, not %d", p.MinDistance)
	case p.MinDistance > p.MaxTurns-1:
		return fmt.Errorf("parameter min_distance: %d moves leave no map within max_turns %d: want at most %d",
			p.MinDistance, p.MaxTurns, p.MaxTurns-1)
	}
	for _, heldOut := range []bool{false, true} {
		if _, err := randomBoard(0, heldOut, *p); err != nil {
			return err
		}
	}
	return nil
}

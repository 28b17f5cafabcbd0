package trace

import (
	"testing"

	"github.com/headrace/headrace/subjects"
)

func TestDrawTrainer_WaitsForTheFirstBatchAreItsStart(t *testing.T) {
	r := &reader{report: &Report{}, d: newDrawing(), told: newTold()}
	rank := trainerOf("rank0")
	at := func(name string, start, end int64) block {
		return block{name: name, start: start * sec, end: end * sec}
	}
	r.told.trainers[rank] = []block{ // of two starts, in no order
		at(nameTrain, 9, 10), at(nameStart, 0, 5), at(nameWait, 5, 8), at("prepare", 8, 9), at(nameWait, 10, 14), at(nameTrain, 14, 15),
		at(nameStart, 20, 25), at(nameWait, 25, 26), at("publish weights", 26, 27), at(nameWait, 27, 28), at(nameTrain, 28, 30), at(nameWait, 30, 31)}
	if err := r.drawTrainer(t.Context(), r.trainer(), nil, nil); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, b := range r.d.process(rank).rows["steps"].blocks {
		sums[b.name] += (b.end - b.start) / sec
	}
	if sums[nameStart] != 10+3+1+1 || sums[nameWait] != 4+1 || r.waited != 5*sec || r.trained != 4*sec {
		t.Errorf("%v, %+v", sums, r.report)
	}
}

func TestDrawTrainer_OnlyTheRankThatCommitsIsCounted(t *testing.T) {
	r := &reader{report: &Report{}, d: newDrawing(), told: newTold()}
	for _, rank := range []string{"rank1", "rank0"} {
		r.told.trainers[trainerOf(rank)] = []block{{name: nameTrain, start: sec, end: 3 * sec, step: 7}}
	}
	flows := map[subjects.Step][]uint64{7: {1, 2}}
	if err := r.drawTrainer(t.Context(), r.trainer(), []subjects.CommitEvent{{Step: 7, At: 3 * sec, TrainSeconds: 2}}, flows); err != nil {
		t.Fatal(err)
	}
	zero, one := r.d.process(trainerOf("rank0")).rows["steps"].blocks, r.d.process(trainerOf("rank1")).rows["steps"].blocks
	if len(zero) != 1 || len(zero[0].ends) != 2 || len(one) != 1 || one[0].ends != nil || r.trained != 2*sec || r.report.Steps != 1 {
		t.Errorf("%+v\n%+v\n%+v", zero, one, r.report)
	}
}

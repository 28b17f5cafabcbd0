package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is one entry of bench.json: the figure's values over the rounds. The
// CPU seconds are the median too, null where they have no meaning.
type result struct {
	Name   string   `json:"name"`
	Median float64  `json:"median"`
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
	Unit   string   `json:"unit"`
	CPU    *float64 `json:"cpu_s_per_mtok"`
	N      int      `json:"n"`
}

func (o *options) remark(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "      "+format+"\n", args...)
}

// all takes the rounds, prints the table and writes the file.
func (o *options) all(ctx context.Context) error {
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	values := map[string][]value{}
	missing := map[string]bool{}
	begun := time.Now()
	for round := range o.rounds {
		for _, f := range figures() {
			if !o.wants(f) || missing[f.names[0]] {
				continue
			}
			err := o.one(ctx, round, f, values)
			if errors.Is(err, errMissing) {
				missing[f.names[0]] = true
				fmt.Fprintf(os.Stderr, "bench: %s: %v\n", strings.Join(f.names, ", "), err)
			} else if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(f.names, ", "), err)
			}
		}
	}
	results := summarise(values)
	if err := printTable(results); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "took %.0f s; %s\n", time.Since(begun).Seconds(), o.out)
	if err := write(o.out, results); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d figures were not measured, see above", len(missing))
	}
	return nil
}

func (o *options) one(ctx context.Context, round int, f figure, values map[string][]value) error {
	got, err := f.measure(ctx, o)
	if err != nil {
		return err
	}
	for i, v := range got {
		values[f.names[i]] = append(values[f.names[i]], v)
		cpu := ""
		if v.cpu > 0 {
			cpu = fmt.Sprintf("   %.3f CPU s/Mtok", v.cpu)
		}
		fmt.Fprintf(os.Stderr, "%d/%d  %-28s %12s %s%s\n", round+1, o.rounds, f.names[i], short(v.v), f.units[i], cpu)
	}
	return nil
}

func summarise(values map[string][]value) (all []result) {
	for _, f := range figures() {
		for i, name := range f.names {
			var v, cpu []float64
			for _, x := range values[name] {
				v = append(v, x.v)
				if x.cpu > 0 {
					cpu = append(cpu, x.cpu)
				}
			}
			if len(v) == 0 {
				continue
			}
			r := result{Name: name, Median: percentile(v, .5), Min: slices.Min(v), Max: slices.Max(v), Unit: f.units[i], N: len(v)}
			if len(cpu) > 0 {
				r.CPU = new(percentile(cpu, .5))
			}
			all = append(all, r)
		}
	}
	return all
}

// percentile is the p-quantile, by linear interpolation between order statistics.
func percentile(v []float64, p float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	at := p * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (at-float64(low))*(s[high]-s[low])
}

func printTable(results []result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmedian\tmin\tmax\tunit\tCPU s/Mtok\trounds")
	medians := map[string]float64{}
	for _, r := range results {
		cpu := ""
		if r.CPU != nil {
			cpu = fmt.Sprintf("%.3f", *r.CPU)
		}
		medians[r.Name] = r.Median
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", r.Name, short(r.Median), short(r.Min), short(r.Max), r.Unit, cpu, r.N)
	}
	for _, pair := range [][2]string{
		{"e2e_512_sync1s", "redis_512_everysec"}, {"e2e_2048_sync1s", "redis_2048_everysec"},
		{"e2e_512_always", "redis_512_always"}, {"e2e_2048_always", "redis_2048_always"},
		{"e2e_512_sync1s", "jetstream_512_limit"}, {"e2e_2048_sync1s", "jetstream_2048_limit"},
	} {
		if a, b := medians[pair[0]], medians[pair[1]]; a > 0 && b > 0 {
			fmt.Fprintf(w, "%s / %s\t%.2f\n", pair[0], pair[1], a/b)
		}
	}
	return w.Flush()
}

// short is a number for people: three to four digits.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1f k", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func write(path string, results []result) error {
	b, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

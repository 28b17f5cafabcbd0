package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// row is one fault of the table, over all of its runs.
type row struct {
	Fault      string  `json:"fault"`
	Runs       int     `json:"runs"`
	Lost       int     `json:"lost"`
	Duplicated int     `json:"duplicated"`
	Mixed      int     `json:"mixed"`
	P50        float64 `json:"recovery_p50_s"`
	Max        float64 `json:"recovery_max_s"`
	// Stall is the longest time without a commit after the fault.
	StallP50 float64 `json:"stall_p50_s"`
	StallMax float64 `json:"stall_max_s"`
	// Stuck counts runs that did not get to their end, Reported those that lost
	// data with the store and said so, Again the steps that were delivered a second time, equal.
	Stuck    int `json:"stuck"`
	Reported int `json:"reported"`
	Again    int `json:"delivered_again"`

	text string
}

// rows sums the results up, in the order of the faults.
func rows(results []result) (out []row) {
	for i := range faults {
		r := row{Fault: faults[i].name, text: faults[i].text}
		var times, stalls []float64
		for k := range results {
			x := &results[k]
			if x.Fault != r.Fault {
				continue
			}
			r.Runs++
			if x.Reported {
				r.Reported++
			} else {
				r.Lost += x.Lost
				r.Duplicated += x.Duplicated
				r.Mixed += x.Mixed
			}
			r.Again += x.Resumed
			if x.Stuck || x.Error != "" {
				r.Stuck++
			}
			if x.Recovery >= 0 {
				times, stalls = append(times, x.Recovery), append(stalls, x.Stall)
			}
		}
		if r.Runs == 0 {
			continue
		}
		r.P50, r.Max = middle(times)
		r.StallP50, r.StallMax = middle(stalls)
		out = append(out, r)
	}
	return out
}

// middle is the median and the largest.
func middle(times []float64) (p50, largest float64) {
	slices.Sort(times)
	if n := len(times); n > 0 {
		return round((times[(n-1)/2] + times[n/2]) / 2), round(times[n-1])
	}
	return 0, 0
}

func round(s float64) float64 { return float64(int(s*1000+0.5)) / 1000 }

// writeTable writes the JSON, and the page between its markers.
func (o *options) writeTable() error {
	results, err := o.readResults()
	if err != nil {
		return err
	}
	all := rows(results)
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.out, append(text, '\n'), 0o644); err != nil {
		return err
	}
	table := markdown(all)
	fmt.Print(table)
	if o.docs == "" {
		return nil
	}
	return replaceBetween(o.docs, table)
}

func markdown(all []row) string {
	var b strings.Builder
	b.WriteString("| fault | what happens | runs | lost | duplicated | mixed | stuck | recovery p50 | max | stall p50 | max |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		lost := fmt.Sprint(r.Lost)
		if r.Reported > 0 {
			lost += fmt.Sprintf(" (reported %d/%d)", r.Reported, r.Reported)
		}
		times := " | | | "
		if r.Max > 0 {
			times = fmt.Sprintf(" %.2f s | %.2f s | %.1f s | %.1f s", r.P50, r.Max, r.StallP50, r.StallMax)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %s | %d | %d | %d |%s |\n", r.Fault, r.text, r.Runs, lost, r.Duplicated, r.Mixed, r.Stuck, times)
	}
	return b.String()
}

const (
	markBegin = "<!-- chaos: begin -->\n"
	markEnd   = "<!-- chaos: end -->"
)

// replaceBetween puts the table between the markers of a page.
func replaceBetween(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), markBegin)
	_, tail, ok2 := strings.Cut(rest, markEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers %q and %q", page, strings.TrimSpace(markBegin), markEnd)
	}
	return os.WriteFile(page, []byte(head+markBegin+table+markEnd+tail), 0o644)
}

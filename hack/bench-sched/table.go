package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"lj.aliyun.com/kit/pkg/render"
)

// Row is one measurement.
type Row struct {
	Name   string  `json:"name"`
	Figure float64 `json:"figure"`
	Unit   string  `json:"unit"`
	// LessIsBetter is true of times and costs.
	LessIsBetter bool    `json:"lessIsBetter,omitempty"`
	Peer         *Peer   `json:"peer,omitempty"`
	Target       *Target `json:"target,omitempty"`
}

// Peer is the same measurement of somebody else in the same run.
type Peer struct {
	Name   string  `json:"name"`
	Figure float64 `json:"figure"`
}

// Target is what the figure, or its ratio to the peer's, must reach: at least
// Value, or at most where less is better. A ratio is always at least.
type Target struct {
	OfRatio bool    `json:"ofRatio,omitempty"`
	Value   float64 `json:"value"`
}

// Ratio says how many times better than the peer the figure is; ok is false
// without a peer, or where one of the two is 0.
func (r *Row) Ratio() (ratio float64, ok bool) {
	if r.Peer == nil || r.Peer.Figure == 0 || r.Figure == 0 {
		return 0, false
	}
	if r.LessIsBetter {
		return r.Peer.Figure / r.Figure, true
	}
	return r.Figure / r.Peer.Figure, true
}

// Met tells whether the target is reached; ok is false if there is none, or
// nothing to hold against it.
func (r *Row) Met() (met, ok bool) {
	switch {
	case r.Target == nil:
		return false, false
	case r.Target.OfRatio:
		ratio, ok := r.Ratio()
		return ratio >= r.Target.Value, ok
	case r.LessIsBetter:
		return r.Figure <= r.Target.Value, true
	}
	return r.Figure >= r.Target.Value, true
}

func (r *Row) cells() []string {
	out := []string{r.Name, number(r.Figure), r.Unit, "", "", "", "", ""}
	if r.Peer != nil {
		out[3], out[4] = number(r.Peer.Figure), r.Peer.Name
	}
	if ratio, ok := r.Ratio(); ok {
		out[5] = strconv.FormatFloat(ratio, 'f', 2, 64)
	}
	if t := r.Target; t != nil {
		sign := ">="
		if r.LessIsBetter && !t.OfRatio {
			sign = "<="
		}
		out[6] = sign + " " + number(t.Value)
		if t.OfRatio {
			out[6] = "ratio " + out[6]
		}
	}
	if met, ok := r.Met(); ok {
		out[7] = map[bool]string{true: "yes", false: "NO"}[met]
	}
	return out
}

// number prints three significant digits, and whole numbers in full.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Report is everything that one run has measured.
type Report struct {
	Version int     `json:"version"` // of this format
	Machine Machine `json:"machine"`
	Rows    []Row   `json:"rows"`
	// Skipped are measurements that could not be made, with the reason.
	Skipped []string `json:"skipped,omitempty"`
}

func (r *Report) print(w io.Writer, format string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	fmt.Fprintf(w, "%s\n\n", r.Machine)
	t := render.Table{Headers: []string{"MEASURED", "FIGURE", "UNIT", "PEER'S", "PEER", "RATIO", "TARGET", "MET"}}
	for i := range r.Rows {
		t.Row(r.Rows[i].cells()...)
	}
	if err := t.Print(w, false); err != nil {
		return err
	}
	for _, s := range r.Skipped {
		fmt.Fprintln(w, "not measured:", s)
	}
	_, err := fmt.Fprintln(w, "\nA ratio above 1 is better than the peer, for rates and for times.")
	return err
}

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRatiosAndTargets(t *testing.T) {
	r := Report{Rows: []Row{
		{Name: "a rate above the peer's", Figure: 300, Unit: "pods/s", Peer: &Peer{"stock", 150}, Target: &Target{OfRatio: true, Value: 1}},
		{Name: "a rate below", Figure: 75, Unit: "pods/s", Peer: &Peer{"stock", 150}, Target: &Target{OfRatio: true, Value: 1}},
		{Name: "a time below its limit", Figure: 30.25, Unit: "s", LessIsBetter: true, Peer: &Peer{"stock", 60.5}, Target: &Target{Value: 60}},
		{Name: "a time above it", Figure: 61, Unit: "s", LessIsBetter: true, Target: &Target{Value: 60}},
		{Name: "a share that is too small", Figure: 94.9, Unit: "%", Target: &Target{Value: 95}},
		{Name: "no target", Figure: 0.0123, Unit: "ms"},
		{Name: "a peer of whom nothing is known", Figure: 5, Unit: "pods/s", Peer: &Peer{"stock", 0}, Target: &Target{OfRatio: true, Value: 1}},
	}, Skipped: []string{"gang: no such thing"}}
	var out strings.Builder
	if err := r.print(&out, "table"); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "\n\n")
	want := `MEASURED                          FIGURE   UNIT     PEER'S   PEER    RATIO   TARGET       MET
a rate above the peer's           300      pods/s   150      stock   2.00    ratio >= 1   yes
a rate below                      75       pods/s   150      stock   0.50    ratio >= 1   NO
a time below its limit            30.2     s        60.5     stock   2.00    <= 60        yes
a time above it                   61       s        -        -       -       <= 60        NO
a share that is too small         94.9     %        -        -       -       >= 95        NO
no target                         0.0123   ms       -        -       -       -            -
a peer of whom nothing is known   5        pods/s   0        stock   -       ratio >= 1   -
not measured: gang: no such thing

A ratio above 1 is better than the peer, for rates and for times.
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBenchmarksAreReadByTheirUnits(t *testing.T) {
	got, err := parseBench(`goos: linux
BenchmarkSingles-2        	       1	2615990884 ns/op	        12.70 p99-ms	       764.2 pods/s
BenchmarkRefusal-2        	       1	 107195569 ns/op
PASS
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]figures{"Singles": {"ns/op": 2615990884, "p99-ms": 12.7, "pods/s": 764.2}, "Refusal": {"ns/op": 107195569}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"PASS\n", "BenchmarkX-2 1 many ns/op\n"} {
		if _, err := parseBench(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestMetricsAreSummedOverTheirLabels(t *testing.T) {
	text := []byte(`# HELP a_sum what
a_sum{result="x"} 1.5
a_sum{result="y z"} 2
a_sum_other 8
a_count 3
b{le="+Inf"} 1e2
`)
	for metric, want := range map[string]float64{"a_sum": 3.5, "a_count": 3, "b": 100, "none": 0} {
		if got, err := sumOf(text, metric); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", metric, got, err, want)
		}
	}
	if _, err := sumOf([]byte("a_sum many\n"), "a_sum"); err == nil {
		t.Error("no number: no error")
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// figures are the metrics of one benchmark of pkg/sched by their units.
type figures map[string]float64

// goBench runs benchmarks of pkg/sched, each once: they make their own
// repetitions of what they measure.
func goBench(ctx context.Context, pattern string) (map[string]figures, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark("+pattern+")$", "-benchtime", "1x", "-timeout", "20m", "./pkg/sched")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	return parseBench(string(out))
}

// parseBench reads the format of the testing package: a name, the number of
// runs, then values each with its unit.
func parseBench(text string) (map[string]figures, error) {
	out := map[string]figures{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(f[0], "Benchmark"), "-")
		out[name] = figures{}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("benchmark output %q: %w", line, err)
			}
			out[name][f[i+1]] = v
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no figures in the output of the benchmarks:\n%s", text)
	}
	return out, nil
}

// engineRows are about the engine in one process, without an API server.
func (b *bench) engineRows(ctx context.Context) error {
	got, err := goBench(ctx, "Singles|Gangs|AgainstStock|Growth|Refusal")
	if err != nil {
		return err
	}
	const where = "engine alone, 5000 nodes x 8 cards: "
	s, g, a, gr := got["Singles"], got["Gangs"], got["AgainstStock"], got["Growth"]
	rate, cycle := &Target{Value: 300}, &Target{Value: 20}
	b.add(Row{Name: where + "single pods of five kinds", Figure: s["pods/s"], Unit: "pods/s", Target: rate})
	b.add(Row{Name: "  99 of 100 cycles end within", Figure: s["p99-ms"], Unit: "ms", LessIsBetter: true, Target: cycle})
	b.add(cpuRow(s["cpu-µs/pod"], nil))
	b.add(Row{Name: where + "gangs of 8 to 64", Figure: g["pods/s"], Unit: "pods/s", Target: &Target{Value: 250}})
	b.add(cpuRow(g["cpu-µs/pod"], nil))
	b.add(Row{Name: where + "one-card pods", Figure: a["pods/s"], Unit: "pods/s", Peer: &Peer{"stock profile", a["stock-pods/s"]}, Target: &Target{OfRatio: true, Value: 1}})
	b.add(cpuRow(a["cpu-µs/pod"], &Peer{"stock profile", a["stock-cpu-µs/pod"]}))
	b.add(Row{Name: where + "one pod refused", Figure: got["Refusal"]["ns/op"] / 1e6, Unit: "ms", LessIsBetter: true, Target: &Target{Value: 100}})
	b.add(Row{Name: "engine alone, all nodes scored: cost of a pod on 5000 nodes over that on 500", Figure: gr["times"], Unit: "times", LessIsBetter: true,
		Peer: &Peer{"stock profile", gr["stock-times"]}, Target: &Target{Value: 9.99}})
	return nil
}

// cpuRow is the CPU time behind the row above it, on all cores.
func cpuRow(micros float64, peer *Peer) Row {
	return Row{Name: "  CPU on all cores", Figure: micros, Unit: "µs/pod", LessIsBetter: true, Peer: peer}
}

// qualityRows are about what is allocated, in logical time.
func (b *bench) qualityRows(ctx context.Context) error {
	got, err := goBench(ctx, "Quality")
	if err != nil {
		return err
	}
	q := got["Quality"]
	same := &Target{OfRatio: true, Value: 1}
	b.add(Row{Name: "packing, seeded trace of whole-card jobs: allocated share", Figure: q["whole-%"], Unit: "%",
		Peer: &Peer{"stock MostAllocated", q["whole-stock-%"]}, Target: same})
	b.add(Row{Name: "packing, seeded trace of all kinds: allocated share", Figure: q["mixed-%"], Unit: "%",
		Peer: &Peer{"MostAllocated nodes, our cards", q["mixed-stock-%"]}, Target: same})
	b.add(Row{Name: "packing, small fleets: of what brute force places", Figure: q["of-optimum-%"], Unit: "%", Target: &Target{Value: 95}})
	b.add(Row{Name: "  of brute force that may also refuse what fits", Figure: q["of-picky-optimum-%"], Unit: "%"})
	return nil
}

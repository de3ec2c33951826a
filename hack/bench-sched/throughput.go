package main

import (
	"context"
	"fmt"
	"time"
)

// throughput is what one scheduler did in all its turns.
type throughput struct {
	pods int
	took time.Duration // from the first to the last binding, as seen by a watch
	cpu  time.Duration // of the scheduler's process
}

func (t throughput) rate() float64    { return float64(t.pods) / t.took.Seconds() }
func (t throughput) cpuEach() float64 { return t.cpu.Seconds() * 1000 / float64(t.pods) }

// compare lets the contenders bind the same pods on the same bare nodes, in
// turns. The pods are there before the scheduler starts, so that nothing but
// scheduling and the API server's part of it is measured.
func (b *bench) compare(ctx context.Context, nodes, pods, turns int, all []contender) ([]throughput, error) {
	c, err := startCluster(ctx, b.sandbox, hostOnly)
	if err != nil {
		return nil, err
	}
	defer c.down()
	b.report.Machine.Kubernetes = c.version
	if err := c.addBare(ctx, eightCards(nodes)); err != nil {
		return nil, err
	}
	w, err := c.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer w.end()
	out := make([]throughput, len(all))
	for turn := range turns {
		for n := range all {
			// Each of them is the first once: the first finds the API server cold.
			i := (n + turn) % len(all)
			k := all[i]
			t, err := b.turn(ctx, c, w, k, pods)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
			b.say("turn %d, %s: %.0f pods/s, %.2f ms of CPU per pod", turn+1, k.name, t.rate(), t.cpuEach())
			out[i].pods, out[i].took, out[i].cpu = out[i].pods+t.pods, out[i].took+t.took, out[i].cpu+t.cpu
		}
	}
	return out, nil
}

func (b *bench) turn(ctx context.Context, c *cluster, w *watcher, k contender, pods int) (throughput, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := c.createPods(ctx, "p", pods, 1); err != nil {
		return throughput{}, err
	}
	p, err := k.run(ctx, c)
	if err != nil {
		return throughput{}, err
	}
	defer p.stop()
	s, err := w.await(ctx, "all pods bound", func(s summary) bool { return s.pods == pods && s.bound == pods })
	if err != nil {
		return throughput{}, err
	}
	cpu, err := p.cpu()
	if err != nil {
		return throughput{}, err
	}
	p.stop()
	return throughput{pods, s.lastBound.Sub(s.firstBound), cpu}, c.clearPods(ctx, w)
}

// eightCards is a fleet of n nodes with 8 cards each.
func eightCards(n int) string {
	return fmt.Sprintf("nodes: [{name: n, count: %d, cards: {model: H800}}]\n", n)
}

// throughputRows compares with the stock scheduler, twice: with what the
// suite's profile has of its plugins, and as it comes.
func (b *bench) throughputRows(ctx context.Context) error {
	const nodes = 500
	got, err := b.compare(ctx, nodes, b.pods, b.turns, []contender{ours(b.ljnode), stockEqual(b.stock), stockDefault(b.stock)})
	if err != nil {
		return err
	}
	lj := got[0]
	for i, name := range []string{"stock, same plugins", "stock, default profile"} {
		peer := got[i+1]
		b.add(Row{Name: fmt.Sprintf("throughput, %d one-card pods waiting, %d nodes", b.pods, nodes), Figure: lj.rate(), Unit: "pods/s",
			Peer: &Peer{name, peer.rate()}, Target: &Target{OfRatio: true, Value: 1}})
		b.add(Row{Name: "  the scheduler's own CPU", Figure: lj.cpuEach(), Unit: "ms/pod", LessIsBetter: true, Peer: &Peer{name, peer.cpuEach()}})
	}
	return nil
}

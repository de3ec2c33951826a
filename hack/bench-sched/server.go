package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// stage is a sandbox with a scheduler and somebody who watches the pods.
type stage struct {
	*cluster
	*process
	w *watcher
}

// open starts all three; fleetText is the sandbox's own fleet and bare the
// nodes without kubelets, each may be empty.
func (b *bench) open(ctx context.Context, k contender, fleetText, bare string) (*stage, error) {
	if fleetText == "" {
		fleetText = hostOnly
	}
	c, err := startCluster(ctx, b.sandbox, fleetText)
	if err != nil {
		return nil, err
	}
	b.report.Machine.Kubernetes = c.version
	s := &stage{cluster: c}
	if bare != "" {
		err = c.addBare(ctx, bare)
	}
	if err == nil {
		s.w, err = c.watch(ctx)
	}
	if err == nil {
		s.process, err = k.run(ctx, c)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) close() {
	if s.process != nil {
		s.process.stop()
	}
	if s.w != nil {
		s.w.end()
	}
	s.cluster.down()
}

// jobsRows: Jobs of one one-card pod on 500 nodes, from the first request to
// the last binding: API server, Job controller, simulated kubelets and the
// watcher are all on this machine.
func (b *bench) jobsRows(ctx context.Context) error {
	const nodes = 500
	var got []throughput
	for _, k := range []contender{ours(b.ljnode), stockDefault(b.stock)} {
		t, err := b.jobs(ctx, k, nodes)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		b.say("%s: %.1f s, %.1f s of CPU", k.name, t.took.Seconds(), t.cpu.Seconds())
		got = append(got, t)
	}
	const peer = "stock, default profile"
	b.add(Row{Name: fmt.Sprintf("%d one-card Jobs on %d nodes, all included", b.jobCount, nodes), Figure: got[0].took.Seconds(), Unit: "s", LessIsBetter: true,
		Peer: &Peer{peer, got[1].took.Seconds()}, Target: &Target{Value: 60}})
	b.add(Row{Name: "  CPU of everything together", Figure: got[0].cpu.Seconds(), Unit: "s", LessIsBetter: true, Peer: &Peer{peer, got[1].cpu.Seconds()}})
	return nil
}

// jobs measures one scheduler; cpu is that of all processes.
func (b *bench) jobs(ctx context.Context, k contender, nodes int) (throughput, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	s, err := b.open(ctx, k, eightCards(nodes), "")
	if err != nil {
		return throughput{}, err
	}
	defer s.close()
	before, err := s.allCPU()
	if err != nil {
		return throughput{}, err
	}
	start := time.Now()
	err = inParallel(ctx, b.jobCount, func(i int) error { return s.createJob(ctx, job(fmt.Sprintf("j-%d", i), 1, 1, 0)) })
	if err != nil {
		return throughput{}, err
	}
	sum, err := s.w.await(ctx, "all pods bound", func(s summary) bool { return s.bound == b.jobCount })
	if err != nil {
		return throughput{}, err
	}
	after, err := s.allCPU()
	return throughput{b.jobCount, sum.lastBound.Sub(start), after - before}, err
}

// allCPU is what the sandbox, the scheduler and this program have used.
func (s *stage) allCPU() (time.Duration, error) {
	holder, _ := s.dir.Holder()
	var sum time.Duration
	for _, pid := range []int{holder, s.cmd.Process.Pid, os.Getpid()} {
		t, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// racks is a fleet with network topology: 16 nodes to a leaf, 128 to a
// network-pod.
func racks(nodes int) string {
	var sb strings.Builder
	sb.WriteString("nodes:\n")
	for i := range nodes / 16 {
		fmt.Fprintf(&sb, "- {name: n%d, count: 16, leaf: leaf-%d, hypernode: hn-%d, networkPod: np-%d, cards: {model: H800}}\n", i, i, i, i/8)
	}
	return sb.String()
}

// gangRows: one group of 512 on 512 nodes with topology, from its last member
// created to its last member bound.
func (b *bench) gangRows(ctx context.Context) error {
	const nodes, members = 512, 512
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	s, err := b.open(ctx, ours(b.ljnode), "", racks(nodes))
	if err != nil {
		return err
	}
	defer s.close()
	m, err := s.newMeter(ctx, s.process)
	if err != nil {
		return err
	}
	if err := s.createJob(ctx, job("gang", members, 1, members)); err != nil {
		return err
	}
	sum, err := s.w.await(ctx, "all members bound", func(s summary) bool { return s.bound == members })
	if err != nil {
		return err
	}
	if sum.firstBound.Before(sum.lastCreate) {
		return fmt.Errorf("a member was bound %.1f s before the last was there: pods are not bound as a group", sum.lastCreate.Sub(sum.firstBound).Seconds())
	}
	spent, err := m.read(ctx, groupAttempts)
	if err != nil {
		return err
	}
	refused, err := s.putOff(ctx)
	if err != nil {
		return err
	}
	b.add(Row{Name: fmt.Sprintf("gang of %d on %d nodes with topology, last created to last bound", members, nodes),
		Figure: sum.lastBound.Sub(sum.lastCreate).Seconds(), Unit: "s", LessIsBetter: true, Target: &Target{Value: 5}})
	b.add(Row{Name: "  to first bound", Figure: sum.firstBound.Sub(sum.lastCreate).Seconds(), Unit: "s", LessIsBetter: true})
	b.add(Row{Name: "  in the engine, all attempts", Figure: spent.sum, Unit: "s", LessIsBetter: true})
	b.add(Row{Name: "  put off by the API server's priority and fairness", Figure: refused, Unit: "requests", LessIsBetter: true})
	return nil
}

// groupAttempts has the time of the engine's cycles of groups.
const groupAttempts = "scheduler_podgroup_scheduling_attempt_duration_seconds"

// refusalRows: on a full cluster, one pod and one group that fit nowhere, from
// the request to the condition that says why, and the engine's part of that.
func (b *bench) refusalRows(ctx context.Context) error {
	const nodes = 500
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s, err := b.open(ctx, ours(b.ljnode), "", eightCards(nodes))
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.createPods(ctx, "full", nodes, 8); err != nil {
		return err
	}
	if _, err := s.w.await(ctx, "the cluster full", func(s summary) bool { return s.bound == nodes }); err != nil {
		return err
	}
	m, err := s.newMeter(ctx, s.process)
	if err != nil {
		return err
	}
	single := func() error { return s.createPods(ctx, "no", 1, 8) }
	if err := b.refused(ctx, s, m, "one 8-card pod, full cluster of 500 nodes", 1, "scheduler_scheduling_attempt_duration_seconds", single); err != nil {
		return err
	}
	group := func() error { return s.createJob(ctx, job("no", 10, 8, 10)) }
	return b.refused(ctx, s, m, "gang of 10 with 8 cards each, full cluster of 500 nodes", 10, groupAttempts, group)
}

// refused does something that brings n pods to be refused and adds two rows.
func (b *bench) refused(ctx context.Context, s *stage, m *meter, what string, n int, metric string, act func() error) error {
	before, err := m.read(ctx, metric)
	if err != nil {
		return err
	}
	had := s.w.sum().refused
	start := time.Now()
	if err := act(); err != nil {
		return err
	}
	sum, err := s.w.await(ctx, what+" refused", func(s summary) bool { return s.refused == had+n })
	if err != nil {
		return err
	}
	after, err := m.read(ctx, metric)
	if err != nil {
		return err
	}
	if after.count == before.count {
		return fmt.Errorf("%s: %s has counted nothing: the pods are not scheduled as a group", what, metric)
	}
	b.say("%s: %s", what, sum.why)
	b.add(Row{Name: what + ", request to reason", Figure: sum.lastRefused.Sub(start).Seconds(), Unit: "s", LessIsBetter: true, Target: &Target{Value: 1}})
	b.add(Row{Name: "  in the engine, one attempt", Figure: (after.sum - before.sum) / (after.count - before.count) * 1000, Unit: "ms", LessIsBetter: true, Target: &Target{Value: 100}})
	return nil
}

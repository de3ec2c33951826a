package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
)

func (d *demo) checkManifests(ctx context.Context) error {
	d.title("Check: are the examples right?")
	_, code, err := d.ljctl(ctx, "validate", "-f", "examples")
	if err == nil {
		d.expect(code == reason.ExitOK, "all examples are valid")
	}
	return err
}

// want is what an example must be given.
type want struct {
	file  string
	pods  int
	cards int // per pod
	check func(device.Grant, *device.Card) bool
	what  string
}

func wants() []want {
	whole := func(v device.Vendor) func(device.Grant, *device.Card) bool {
		return func(g device.Grant, c *device.Card) bool { return g.Whole && c.Vendor == v && !c.InMIGMode() }
	}
	half := func(g device.Grant, c *device.Card) bool {
		return g.Share && g.Core != nil && *g.Core == 50 && g.MemMiB != nil && *g.MemMiB == 4096 && !c.InMIGMode()
	}
	slice := func(g device.Grant, c *device.Card) bool { return strings.HasPrefix(g.MIG, "3g.") && c.InMIGMode() }
	return []want{
		{"whole-card", 1, 1, whole(device.NVIDIA), "one whole NVIDIA card"},
		{"tdm-share", 1, 1, half, "half of a card and 4 GiB"},
		{"mig-slice", 1, 1, slice, "a MIG instance of three slices"},
		{"multi-gpu-share", 1, 2, half, "the same share on two cards"},
		{"ppu-cards", 1, 4, whole(device.PPU), "four whole PPUs"},
		{"ppu-rdma", 1, 4, whole(device.PPU), "four whole PPUs on a node with RDMA"},
		{"gang-training", 7, 1, whole(device.NVIDIA), "seven workers with a card each"},
	}
}

func (d *demo) submitExamples(ctx context.Context) error {
	d.title("Submit the examples")
	for _, w := range wants() {
		out, code, err := d.quiet(ctx, "submit", "-n", d.Namespace, "-f", filepath.Join("examples", w.file+".yaml"))
		if err != nil {
			return err
		}
		if code != reason.ExitOK {
			d.expect(false, "%s is accepted: %s", w.file, strings.TrimSpace(out))
		}
	}
	fmt.Fprintf(d.Out, "  %-26s %-14s %s\n", "JOB", "NODE", "CARDS")
	for _, w := range wants() {
		if err := d.show(ctx, w); err != nil {
			return err
		}
	}
	_, _, err := d.ljctl(ctx, "jobs", "-n", d.Namespace)
	return err
}

// show waits for an example's pods and prints what each was given.
func (d *demo) show(ctx context.Context, w want) error {
	pods, err := d.bound(ctx, w.file, w.pods)
	if err != nil {
		return err
	}
	good := len(pods) == w.pods
	seen := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		text, grants, cards, err := d.granted(ctx, p)
		if err != nil {
			d.expect(false, "%v", err)
			return nil
		}
		fmt.Fprintf(d.Out, "  %-26s %-14s %s\n", p.Name, p.Spec.NodeName, text)
		good = good && len(cards) == w.cards
		for k := range cards {
			good = good && w.check(grants[k], cards[k]) && !(grants[k].Whole && seen[cards[k].UUID])
			seen[cards[k].UUID] = true
		}
	}
	d.expect(good, "%s: %s", w.file, w.what)
	return nil
}

func (d *demo) broken(ctx context.Context) error {
	d.title("A manifest with mistakes that the API server accepts")
	file := filepath.Join("demo", "broken.yaml")
	out, code, err := d.ljctl(ctx, "validate", "-f", file)
	if err != nil {
		return err
	}
	d.expect(code == reason.ExitNo, "validate refuses it with exit code %d", reason.ExitNo)
	for _, c := range []string{"scheduler-name-wrong", "runtime-class-missing", "slice-not-allowed", "unknown-gpu-resource", "replica-not-an-integer"} {
		d.expect(strings.Contains(out, c), "it names %s", c)
	}
	if _, code, err = d.quiet(ctx, "submit", "-n", d.Namespace, "-f", file); err != nil {
		return err
	}
	_, getErr := d.Client.CoreV1().Pods(d.Namespace).Get(ctx, "broken", metav1.GetOptions{})
	d.expect(code == reason.ExitNo && getErr != nil, "submit creates nothing of it")
	return nil
}

func (d *demo) impossible(ctx context.Context) error {
	d.title("A job that no card can serve")
	if err := d.submit(ctx, "impossible", filepath.Join("demo", "impossible.yaml")); err != nil {
		return err
	}
	out, code, err := d.ljctl(ctx, "why-pending", "impossible", "-n", d.Namespace, "--exit-code")
	if err != nil {
		return err
	}
	d.expect(code == reason.ExitNo && strings.Contains(out, "BLOCKED"), "why-pending says BLOCKED")
	d.expect(strings.Contains(out, "memory-above-largest-gpu"), "because of memory-above-largest-gpu")
	return nil
}

// submit creates a job and waits until the scheduler has spoken about it, so
// that why-pending can quote it.
func (d *demo) submit(ctx context.Context, name, file string) error {
	out, code, err := d.quiet(ctx, "submit", "-n", d.Namespace, "-f", file)
	if err != nil {
		return err
	}
	if code != reason.ExitOK {
		return fmt.Errorf("submit %s: %s", name, strings.TrimSpace(out))
	}
	spoken, err := poll(ctx, 10*time.Second, func() bool {
		p, err := d.Client.CoreV1().Pods(d.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	})
	if err == nil && !spoken {
		return fmt.Errorf("the scheduler has said nothing about pod %s for 10 s", name)
	}
	return err
}

// fragmented fills each card of a small node for two thirds, so that half a
// card is free in sum and on none.
func (d *demo) fragmented(ctx context.Context) error {
	d.title("Enough memory in sum, but not on one card")
	node, inv, err := d.smallNode(ctx)
	if err != nil {
		return err
	}
	card := inv.Cards[0].ShareMiB(inv.Unit) / inv.Unit.MiB()
	for i := range inv.Cards {
		name := fmt.Sprintf("holder-%d", i)
		if err := d.share(ctx, name, node, card*2/3); err != nil {
			return err
		}
		if pods, err := d.bound(ctx, name, 1); err != nil || len(pods) != 1 {
			d.expect(false, "%s has its card (%v)", name, err)
			return nil
		}
	}
	if err := d.share(ctx, "fragmented", node, card/2); err != nil {
		return err
	}
	out, code, err := d.ljctl(ctx, "why-pending", "fragmented", "-n", d.Namespace, "--exit-code")
	if err != nil {
		return err
	}
	d.expect(code == reason.ExitNotYet && strings.Contains(out, "WAIT"), "why-pending says WAIT")
	d.expect(strings.Contains(out, "fragmented-memory"), "because of fragmented-memory")
	d.expect(strings.Contains(out, "holder-"), "it names a pod that holds the memory")
	if _, _, err = d.ljctl(ctx, "delete", "pod/holder-0", "-n", d.Namespace, "--yes"); err != nil {
		return err
	}
	pods, err := d.bound(ctx, "fragmented", 1)
	if err != nil {
		return err
	}
	d.expect(len(pods) == 1, "with one holder gone the job runs")
	return nil
}

// share submits a pod that asks gpu-memory on one node.
func (d *demo) share(ctx context.Context, name, node string, units int64) error {
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  schedulerName: lj-runtimekit-scheduler
  runtimeClassName: lj-runtime
  nodeSelector:
    kubernetes.io/hostname: %s
  containers:
  - name: app
    image: example.com/infer:1
    resources:
      limits:
        %s: "10"
        %s: "%d"
`, name, node, d.Config.GPUCore(), d.Config.GPUMemory(), units)
	file := name + ".yaml"
	if err := os.WriteFile(filepath.Join(d.dir, file), []byte(manifest), 0o600); err != nil {
		return err
	}
	return d.submit(ctx, name, file)
}

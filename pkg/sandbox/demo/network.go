package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// groups shows where groups go in the network, and that one which does not fit
// waits whole.
func (d *demo) groups(ctx context.Context) error {
	d.title("Groups: twelve workers, then twenty that do not fit beside them")
	if err := d.create(ctx, "gang-12"); err != nil {
		return err
	}
	places, tier, err := d.group(ctx, "gang-12", 12)
	if err != nil {
		return err
	}
	d.expect(len(places.pods) == 1 && len(places.leaves) == 2 && tier == gang.NetworkPod,
		"gang-12 spreads over two leaves of one network-pod")
	if err := d.create(ctx, "gang-second"); err != nil {
		return err
	}
	waits, err := d.waits(ctx, "gang-second", 20, "gang-above-network-pod")
	if err != nil {
		return err
	}
	d.expect(waits, "gang-second waits whole: no member has a node, each tells the same reason")
	if _, _, err := d.ljctl(ctx, "delete", "jobset/gang-12", "-n", d.Namespace, "--yes"); err != nil {
		return err
	}
	places, _, err = d.group(ctx, "gang-second", 20)
	if err != nil {
		return err
	}
	d.expect(len(places.pods) == 1, "when gang-12 has ended, all of gang-second run in one network-pod")
	if _, _, err := d.ljctl(ctx, "delete", "jobset/gang-second", "-n", d.Namespace, "--yes"); err != nil {
		return err
	}
	_, err = poll(ctx, 20*time.Second, func() bool {
		list, err := d.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	return err
}

// near shows cards and NICs that are near each other.
func (d *demo) near(ctx context.Context) error {
	d.title("Near each other: four linked PPUs, four PPUs with their NICs")
	for _, name := range []string{"ppu-810e-4", "m890p-rdma-4"} {
		if err := d.create(ctx, name); err != nil {
			return err
		}
	}
	pods, err := d.bound(ctx, "ppu-810e-4", 1)
	if err != nil {
		return err
	}
	for i := range pods {
		d.say(ctx, &pods[i], "ICN")
	}
	d.expect(len(pods) == 1, "ppu-810e-4 runs")
	if pods, err = d.bound(ctx, "m890p-rdma-4", 2); err != nil {
		return err
	}
	tiers := map[string]bool{}
	for i := range pods {
		d.say(ctx, &pods[i], "NIC")
		a, why := kube.AllocationOf(&pods[i])
		if a == nil {
			d.expect(false, "%s: %s", pods[i].Name, why)
			continue
		}
		d.expect(len(a.NICs) == 4, "%s has a NIC for each of its four cards", pods[i].Name)
		for _, n := range a.NICs {
			tiers[n.Tier] = true
		}
	}
	d.expect(tiers["switch"], "NICs at the cards' own switch are taken first")
	return nil
}

func (d *demo) create(ctx context.Context, name string) error {
	out, code, err := d.quiet(ctx, "submit", "-n", d.Namespace, "-f", filepath.Join("demo", name+".yaml"))
	if err == nil && code != reason.ExitOK {
		d.expect(false, "%s is accepted: %s", name, strings.TrimSpace(out))
	}
	return err
}

// places are the parts of the network in which a group is.
type places struct{ nodes, leaves, pods []string }

// group waits for a group's pods and prints where they are, and how near the
// scheduler says they are.
func (d *demo) group(ctx context.Context, name string, n int) (at places, tier gang.Tier, err error) {
	pods, err := d.bound(ctx, name, n)
	if err != nil {
		return at, 0, err
	}
	nodes, err := d.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return at, 0, err
	}
	labels := map[string]map[string]string{}
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	said := ""
	for i := range pods {
		node := pods[i].Spec.NodeName
		at.nodes = append(at.nodes, node)
		at.leaves = append(at.leaves, labels[node][d.Config.Topology.NetworkPod]+"/"+labels[node][d.Config.Topology.Leaf])
		at.pods = append(at.pods, labels[node][d.Config.Topology.NetworkPod])
		if a, _ := kube.AllocationOf(&pods[i]); a != nil && a.Gang != nil {
			said = a.Gang.Tier
		}
	}
	for _, list := range []*[]string{&at.nodes, &at.leaves, &at.pods} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	fmt.Fprintf(d.Out, "  %-14s %d pods within one %s: network-pod %s, leaves %s, nodes %s\n", name, len(pods), said,
		strings.Join(at.pods, " "), strings.Join(at.leaves, " "), strings.Join(at.nodes, " "))
	d.expect(len(pods) == n, "%s: all %d pods have nodes", name, n)
	for _, t := range gang.Tiers() {
		if t.String() == said {
			return at, t, nil
		}
	}
	d.expect(false, "%s: the record says how near its members are", name)
	return at, 0, nil
}

// waits tells whether all n pods of a group say the same code and none has a
// node.
func (d *demo) waits(ctx context.Context, name string, n int, code string) (bool, error) {
	text := ""
	ok, err := poll(ctx, 20*time.Second, func() bool {
		list, err := d.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		count := 0
		for _, p := range list.Items {
			if !strings.HasPrefix(p.Name, name) || p.Spec.NodeName != "" {
				continue
			}
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodScheduled && strings.Contains(c.Message, code) {
					count++
					text = c.Message
				}
			}
		}
		return count == n
	})
	fmt.Fprintf(d.Out, "  %-14s %s\n", name, text)
	return ok, err
}

// say prints what the scheduler's event says about a pod, which must name a
// thing.
func (d *demo) say(ctx context.Context, p *v1.Pod, thing string) {
	text := ""
	_, _ = poll(ctx, 10*time.Second, func() bool {
		list, err := d.Client.EventsV1().Events(d.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		for _, e := range list.Items {
			if e.Reason == "Scheduled" && e.Regarding.Name == p.Name {
				text = e.Note
			}
		}
		return text != ""
	})
	fmt.Fprintf(d.Out, "  %s\n", text)
	d.expect(strings.Contains(text, thing), "the event of %s says its cards and %s", p.Name, thing)
}

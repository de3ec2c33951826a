package demo

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/examples"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// unpack writes the examples and the demonstration's own manifests where the
// programs can read them.
func (d *demo) unpack() error {
	own, err := fs.Sub(manifests, "manifests")
	if err != nil {
		return err
	}
	for folder, files := range map[string]fs.FS{"examples": examples.Files, "demo": own} {
		if err := os.CopyFS(filepath.Join(d.dir, folder), files); err != nil {
			return err
		}
	}
	return nil
}

// namespace makes a namespace for this run, so that a cluster can see more
// than one.
func (d *demo) namespace(ctx context.Context) error {
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace}}
	_, err := d.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s exists already: an earlier demonstration is still there; remove it with kubectl delete namespace %s", d.Namespace, d.Namespace)
	}
	return err
}

// poll asks every tenth of a second until the answer is yes, and tells
// whether it was before the time was up. What cannot be read yet counts as no.
func poll(ctx context.Context, limit time.Duration, done func() bool) (bool, error) {
	end := time.Now().Add(limit)
	for !done() {
		if time.Now().After(end) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return true, nil
}

// bound waits until so many pods whose name begins with prefix have a node;
// fewer than wanted are an expectation that did not hold, not an error.
func (d *demo) bound(ctx context.Context, prefix string, n int) (found []v1.Pod, err error) {
	_, err = poll(ctx, 20*time.Second, func() bool {
		list, err := d.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		found = found[:0]
		for _, p := range list.Items {
			if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName != "" {
				found = append(found, p)
			}
		}
		return len(found) >= n
	})
	return found, err
}

// inventory reads what a node's agent published.
func (d *demo) inventory(ctx context.Context, node string) (*device.Inventory, error) {
	n, err := d.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	inv, err := device.DecodeInventory(n.Annotations[kube.InventoryAnnotation])
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node, err)
	}
	return inv, nil
}

// granted describes the cards of a pod: "2 x NVIDIA A100-SXM4-80GB [0 1]
// core 50 %, 4096 MiB", and returns the grants with their cards.
func (d *demo) granted(ctx context.Context, p *v1.Pod) (string, []device.Grant, []*device.Card, error) {
	alloc, why := kube.AllocationOf(p)
	if alloc == nil {
		return "", nil, nil, fmt.Errorf("pod %s: %s", p.Name, why)
	}
	inv, err := d.inventory(ctx, p.Spec.NodeName)
	if err != nil {
		return "", nil, nil, err
	}
	var grants []device.Grant
	var cards []*device.Card
	var indices []string
	for _, name := range alloc.Names() {
		for _, g := range alloc.Containers[name] {
			c := inv.Card(g.Card)
			if c == nil {
				return "", nil, nil, fmt.Errorf("pod %s: card %s is not on node %s", p.Name, g.Card, p.Spec.NodeName)
			}
			grants, cards, indices = append(grants, g), append(cards, c), append(indices, fmt.Sprint(c.Index))
		}
	}
	if len(cards) == 0 {
		return "no cards", nil, nil, nil
	}
	return fmt.Sprintf("%d x %s, card %s: %s", len(cards), cards[0].Model, strings.Join(indices, " "), amount(grants[0])), grants, cards, nil
}

func amount(g device.Grant) string {
	switch {
	case g.Whole:
		return "whole"
	case g.MIG != "":
		return fmt.Sprintf("MIG %s at %d", g.MIG, *g.Start)
	}
	var parts []string
	if g.Core != nil {
		parts = append(parts, fmt.Sprintf("%d %% of compute", *g.Core))
	}
	if g.MemMiB != nil {
		parts = append(parts, fmt.Sprintf("%d MiB", *g.MemMiB))
	}
	return strings.Join(parts, ", ")
}

// smallNode finds the place where fragmentation is quickest to show: an
// enabled node that no job of the demonstration is on, with two or more equal
// cards to share, and of these the one with the fewest and smallest cards.
func (d *demo) smallNode(ctx context.Context) (string, *device.Inventory, error) {
	list, err := d.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: kube.EnableLabel + "=true"})
	if err != nil {
		return "", nil, err
	}
	pods, err := d.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", nil, err
	}
	used := map[string]bool{}
	for _, p := range pods.Items {
		used[p.Spec.NodeName] = true
	}
	best, bestInv := "", (*device.Inventory)(nil)
	slices.SortFunc(list.Items, func(a, b v1.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range list.Items {
		n := &list.Items[i]
		inv, err := d.inventory(ctx, n.Name)
		if err != nil || used[n.Name] || n.Spec.Unschedulable || len(n.Spec.Taints) > 0 || !equalCards(inv) {
			continue
		}
		if bestInv == nil || smaller(inv, bestInv) {
			best, bestInv = n.Name, inv
		}
	}
	if best == "" {
		return "", nil, fmt.Errorf("the fleet has no idle enabled node with two or more equal cards to share")
	}
	return best, bestInv, nil
}

func equalCards(inv *device.Inventory) bool {
	return len(inv.Cards) >= 2 && !slices.ContainsFunc(inv.Cards, func(c device.Card) bool {
		return !c.Vendor.Shareable() || c.InMIGMode() || !c.Healthy() || c.Model != inv.Cards[0].Model
	})
}

func smaller(a, b *device.Inventory) bool {
	if len(a.Cards) != len(b.Cards) {
		return len(a.Cards) < len(b.Cards)
	}
	return a.Cards[0].MemMiB < b.Cards[0].MemMiB
}

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
	"k8s.io/apimachinery/pkg/util/wait"

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

// bound waits until so many pods whose name begins with prefix have a node.
func (d *demo) bound(ctx context.Context, prefix string, n int) ([]v1.Pod, error) {
	var found []v1.Pod
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := d.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		found = found[:0]
		for _, p := range list.Items {
			if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName != "" {
				found = append(found, p)
			}
		}
		return len(found) >= n, nil
	})
	if wait.Interrupted(err) {
		return found, nil // fewer than wanted: an expectation, not an error
	}
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

// smallNode finds an enabled node whose cards are all free to share and of
// one model, with the fewest cards: the place where fragmentation is quickest
// to show.
func (d *demo) smallNode(ctx context.Context) (string, *device.Inventory, error) {
	list, err := d.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: kube.EnableLabel + "=true"})
	if err != nil {
		return "", nil, err
	}
	best, bestInv := "", (*device.Inventory)(nil)
	slices.SortFunc(list.Items, func(a, b v1.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range list.Items {
		n := &list.Items[i]
		inv, err := d.inventory(ctx, n.Name)
		if err != nil || n.Spec.Unschedulable || len(n.Spec.Taints) > 0 || len(inv.Cards) < 2 {
			continue
		}
		if slices.ContainsFunc(inv.Cards, func(c device.Card) bool {
			return c.Vendor != device.NVIDIA || c.InMIGMode() || !c.Healthy() || c.Model != inv.Cards[0].Model
		}) {
			continue
		}
		if bestInv == nil || inv.Cards[0].MemMiB < bestInv.Cards[0].MemMiB {
			best, bestInv = n.Name, inv
		}
	}
	if best == "" {
		return "", nil, fmt.Errorf("the fleet has no enabled node with two or more cards to share")
	}
	return best, bestInv, nil
}

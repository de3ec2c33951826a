package simnode

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/kube"
)

// use is what one pod takes of one card for its whole life.
type use struct {
	whole  bool
	share  bool
	core   int64
	memMiB int64
	mask   mig.Mask
}

// asksForCards tells whether a container needs a card: any of our resources
// above 0 but the rdma switch.
func asksForCards(cfg config.Config, c *v1.Container) bool {
	for name, q := range c.Resources.Limits {
		if cfg.IsResource(string(name)) && string(name) != cfg.RDMA() && q.Sign() > 0 {
			return true
		}
	}
	return false
}

// needsAllocation tells whether lj-runtime insists on an allocation for the
// pod. Pods of other schedulers are their schedulers' business.
func needsAllocation(cfg config.Config, pod *v1.Pod) bool {
	if pod.Spec.SchedulerName != kube.SchedulerName {
		return false
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if asksForCards(cfg, &list[i]) {
				return true
			}
		}
	}
	return false
}

// claim decides whether the runtime would create the pod's containers: its
// allocation is its own, complete, possible on this host's cards, and free of
// what others hold. It returns what the pod takes, by card; the error is the
// sentence that lj-runtime would write.
func claim(cfg config.Config, node *v1.Node, others []map[string]use, pod *v1.Pod) (map[string]use, error) {
	text, ok := pod.Annotations[kube.AllocationAnnotation]
	if !ok {
		return nil, fmt.Errorf("the pod has no allocation: it was bound without %s", kube.SchedulerName)
	}
	a, err := device.DecodeAllocation(text, string(pod.UID), node.Name)
	if err != nil {
		return nil, err
	}
	inv, err := device.DecodeInventory(node.Annotations[kube.InventoryAnnotation])
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name, err)
	}
	mine, err := usesOf(cfg, pod, a)
	if err != nil {
		return nil, err
	}
	for uuid, u := range mine {
		card := inv.Card(uuid)
		if card == nil {
			return nil, fmt.Errorf("card %s is not on node %s", uuid, node.Name)
		}
		sum := use{}
		for _, o := range others {
			if held, ok := o[uuid]; ok {
				sum = sum.and(held)
				if u.whole || held.whole || u.mask&held.mask != 0 {
					return nil, fmt.Errorf("card %s is not free: another pod on node %s holds it", uuid, node.Name)
				}
			}
		}
		if err := fits(card, inv.Unit, sum.and(u)); err != nil {
			return nil, fmt.Errorf("card %s: %w", uuid, err)
		}
	}
	return mine, nil
}

// fits tells whether everything that is on a card can be there together.
func fits(card *device.Card, unit config.Unit, all use) error {
	switch {
	case all.mask != 0 && (all.share || all.whole):
		return fmt.Errorf("MIG instances and other uses together")
	case card.InMIGMode() && all.mask == 0:
		return fmt.Errorf("is in MIG mode and can only be cut")
	case all.mask != 0 && !card.InMIGMode() && card.Vendor == device.NVIDIA:
		return fmt.Errorf("is not in MIG mode")
	case all.core > 100:
		return fmt.Errorf("%d percent of its computing power are promised", all.core)
	case all.memMiB > card.ShareMiB(unit):
		return fmt.Errorf("%d MiB of its %d are promised", all.memMiB, card.ShareMiB(unit))
	}
	return nil
}

func (u use) and(v use) use {
	return use{whole: u.whole || v.whole, share: u.share || v.share, core: u.core + v.core, memMiB: u.memMiB + v.memMiB, mask: u.mask | v.mask}
}

// most is the peak of two phases of a pod that follow each other.
func (u use) most(v use) use {
	return use{whole: u.whole || v.whole, share: u.share || v.share, core: max(u.core, v.core), memMiB: max(u.memMiB, v.memMiB), mask: u.mask | v.mask}
}

// usesOf adds an allocation up over the pod's life: app containers and
// sidecars run together, plain init containers one after the other before.
func usesOf(cfg config.Config, pod *v1.Pod, a *device.Allocation) (map[string]use, error) {
	together, peak := map[string]use{}, map[string]use{}
	one := func(c *v1.Container, alone bool) error {
		grants := a.Containers[c.Name]
		if len(grants) == 0 && asksForCards(cfg, c) {
			return fmt.Errorf("the allocation has no card for container %s", c.Name)
		}
		for _, g := range grants {
			u := use{whole: g.Whole, share: g.Share, mask: g.Mask()}
			if g.Core != nil {
				u.core = *g.Core
			}
			if g.MemMiB != nil {
				u.memMiB = *g.MemMiB
			}
			if alone {
				peak[g.Card] = peak[g.Card].most(u)
				continue
			}
			before := together[g.Card]
			if before.whole || u.whole && before != (use{}) || before.mask&u.mask != 0 {
				return fmt.Errorf("card %s is given to two containers of the pod", g.Card)
			}
			together[g.Card] = before.and(u)
		}
		return nil
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := one(c, !isSidecar(c)); err != nil {
			return nil, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := one(&pod.Spec.Containers[i], false); err != nil {
			return nil, err
		}
	}
	for uuid, u := range peak {
		together[uuid] = together[uuid].most(u)
	}
	return together, nil
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

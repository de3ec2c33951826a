// Package schedtest judges what a scheduler has done, from the objects of the
// cluster alone. It is imported by tests only.
package schedtest

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// Verify judges a cluster from its objects alone, with rules written out anew:
// nothing is given twice, nothing that is not there, and every pod has what
// it asked. It returns what is wrong.
func Verify(nodes []*v1.Node, pods []*v1.Pod, c config.Config) []string {
	var wrong []string
	sum := map[string]map[string]*cardSum{}
	for _, n := range nodes {
		inv, err := device.DecodeInventory(n.Annotations[kube.InventoryAnnotation])
		if err != nil {
			continue
		}
		sum[n.Name] = map[string]*cardSum{}
		for i := range inv.Cards {
			sum[n.Name][inv.Cards[i].UUID] = &cardSum{card: &inv.Cards[i], unit: inv.Unit}
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" || kube.Finished(p) {
			continue
		}
		r, bad := kube.RequestOf(p, c)
		if len(bad) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: bound although refused: %v", p.Name, bad))
			continue
		}
		if r.Empty() {
			continue
		}
		a, why := kube.AllocationOf(p)
		if a == nil {
			wrong = append(wrong, p.Name+": "+why)
			continue
		}
		uses, err := cluster.HoldOf(r, a)
		if err != nil {
			wrong = append(wrong, p.Name+": "+err.Error())
			continue
		}
		for _, u := range uses {
			s := sum[p.Spec.NodeName][u.Card]
			if s == nil {
				wrong = append(wrong, fmt.Sprintf("%s: card %s is not on node %s", p.Name, u.Card, p.Spec.NodeName))
				continue
			}
			s.pods = append(s.pods, p.Name)
			wrong = append(wrong, s.add(u)...)
		}
	}
	return wrong
}

// cardSum is what all pods hold of one card.
type cardSum struct {
	card *device.Card
	unit config.Unit
	use  cluster.CardUse
	pods []string
}

func (s *cardSum) add(u cluster.CardUse) []string {
	var wrong []string
	bad := func(what string) { wrong = append(wrong, fmt.Sprintf("card %s: %s: %v", s.card.UUID, what, s.pods)) }
	was := s.use
	if was.Whole || u.Whole && (was.Shares > 0 || was.Mask != 0) {
		bad("given whole and once more")
	}
	if was.Mask&u.Mask != 0 {
		bad("instances overlap")
	}
	s.use = cluster.CardUse{Whole: was.Whole || u.Whole, Core: was.Core + u.Core, MemMiB: was.MemMiB + u.MemMiB,
		Shares: was.Shares + u.Shares, Mask: was.Mask | u.Mask}
	switch {
	case s.use.Core > 100:
		bad(fmt.Sprintf("%d %% compute given", s.use.Core))
	case s.use.MemMiB > s.card.MemMiB/s.unit.MiB()*s.unit.MiB():
		bad(fmt.Sprintf("%d MiB given of %d", s.use.MemMiB, s.card.MemMiB))
	case s.use.Mask != 0 && (s.use.Shares > 0 || s.use.Whole):
		bad("cut and shared at once")
	case s.card.InMIGMode() && (s.use.Shares > 0 || s.use.Whole):
		bad("in MIG mode and given otherwise")
	case s.card.Vendor == device.NVIDIA && s.use.Mask != 0 && !s.card.InMIGMode():
		bad("instance on a card out of MIG mode")
	case len(s.card.Health) > 0:
		bad("unhealthy and given")
	}
	return wrong
}

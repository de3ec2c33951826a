package rules

import (
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Understood is the request of a workload as the scheduler will read it.
type Understood struct {
	// Pods and Cards are totals over the templates that ask for cards; a
	// total is a floor where a template's pods are not known.
	Pods  int64 `json:"pods"`
	Cards int64 `json:"cards"`
	// MemoryUnit is what one gpu-memory counts; UnitAssumed if nobody said so.
	MemoryUnit  config.Unit     `json:"memoryUnit"`
	UnitAssumed bool            `json:"unitAssumed,omitempty"`
	Templates   []UnderstoodPod `json:"templates"`
}

// UnderstoodPod is what each pod of one template asks.
type UnderstoodPod struct {
	Path        string        `json:"path,omitempty"`
	Role        string        `json:"role,omitempty"`
	Pods        int64         `json:"pods"`
	PodsCounted string        `json:"podsCounted,omitempty"`
	Mode        request.Mode  `json:"mode"`
	CardsPerPod int64         `json:"cardsPerPod"`
	RDMA        bool          `json:"rdma,omitempty"`
	MinMember   int           `json:"minMember,omitempty"`
	Containers  []request.Ask `json:"containers"`
}

// Understand reads the templates that ask for cards. It returns nil if none
// does, or if one breaks a rule about its values or has an amount that means
// something else than it seems to, since then nothing can be said about the
// whole.
func Understand(w *Workload, o Options) *Understood {
	c := o.Fleet.settle(o.Config)
	u := &Understood{MemoryUnit: c.Unit, UnitAssumed: !c.UnitKnown}
	for i := range w.Templates {
		t := &w.Templates[i]
		r, bad := request.Parse(t.Pod(w.Namespace), c)
		if len(bad) > 0 || !t.plain(c) {
			return nil
		}
		if r.Empty() {
			continue
		}
		p := UnderstoodPod{Path: t.Path, Role: t.Role, Pods: t.Pods, PodsCounted: t.Count,
			CardsPerPod: int64(r.Cards()), RDMA: r.RDMA, Containers: r.Asks, Mode: r.Asks[0].Mode}
		for _, a := range r.Asks {
			if a.Mode != p.Mode {
				p.Mode = "mixed"
			}
		}
		p.MinMember, _ = request.ParseCount(t.Meta.Labels[c.MinMemberLabel()], "min-member")
		u.Templates = append(u.Templates, p)
		u.Pods += p.Pods
		u.Cards += p.Pods * p.CardsPerPod
	}
	if len(u.Templates) == 0 {
		return nil
	}
	return u
}

// plain tells whether all amounts of ours are numbers that count as written.
func (t *Template) plain(c config.Config) bool {
	for i := range t.Containers {
		for _, a := range t.Containers[i].lines() {
			switch {
			case !c.IsResource(a.Name):
			case a.State != Count, a.Suffix && a.Name == c.GPUMemory():
				return false
			case a.Value == 0 && (a.Name == c.GPUCore() || a.Name == c.GPUSlice()):
				return false
			}
		}
	}
	return true
}

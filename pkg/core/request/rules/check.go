package rules

import (
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Check judges a workload and returns all findings, none if nothing is to be
// said, in the order of the templates.
func Check(w *Workload, o Options) []Finding {
	o.Config = o.Fleet.settle(o.Config)
	k := &checker{Options: o, w: w}
	for i := range w.Templates {
		k.template(&w.Templates[i])
	}
	if w.Elsewhere == "" {
		k.schedulers()
		k.group()
	}
	return k.found
}

// template judges one pod template on its own.
func (k *checker) template(t *Template) {
	near := false
	for i := range t.Containers {
		near = k.container(&t.Containers[i]) || near
	}
	u := k.use(t)
	if !u.any && !near {
		return
	}
	if k.w.Elsewhere != "" {
		k.add(t.Path, reason.Reason{Code: "template-elsewhere", Device: k.w.Elsewhere})
		return
	}
	k.base(t)
	if !u.any {
		return
	}
	k.replica(t, u)
	k.labelKeys(t, u)
	k.policies(t)
	k.together(t, u)
	k.nodeName(t, u)
	k.selectors(t)
	k.rdma(t, u)
	k.fleet(t)
}

// use is what a template asks for, mode by mode.
type use struct {
	any          bool // it names a resource of ours with an amount above 0
	whole        bool
	tdm, mig     bool
	rdma         bool
	nvidia       bool
	modes        []request.Mode // by container
	coreInSum    int64          // percent, app containers
	wholeByApp   []int64        // whole cards, app containers that have some
	shareByApp   int            // app containers with a share
	wantsRDMA    []bool         // by container
	rdmaUntoldTo int            // container with rdma, -1 if none
}

func (k *checker) use(t *Template) use {
	c := k.Config
	u := use{rdmaUntoldTo: -1}
	for i := range t.Containers {
		ct := &t.Containers[i]
		res := ct.amounts()
		mode := modeOf(res, c)
		u.modes = append(u.modes, mode)
		rdma := res[c.RDMA()] > 0
		u.wantsRDMA = append(u.wantsRDMA, rdma)
		if rdma && u.rdmaUntoldTo < 0 {
			u.rdmaUntoldTo = i
		}
		u.rdma = u.rdma || rdma
		u.whole, u.tdm, u.mig = u.whole || mode == request.Whole, u.tdm || mode == request.TDM, u.mig || mode == request.MIG
		u.nvidia = u.nvidia || res[config.NvidiaGPU] > 0
		u.any = u.any || rdma || mode != request.None
		if ct.Kind == request.Init {
			continue
		}
		if n := res[config.NvidiaGPU] + res[c.GPU()]; n > 0 {
			u.wholeByApp = append(u.wholeByApp, n)
		}
		if mode == request.TDM {
			u.shareByApp++
			u.coreInSum += res[c.GPUCore()]
		}
	}
	return u
}

// modeOf is what a container seems to want, also where its amounts break a
// rule: whole before slice before share.
func modeOf(res map[string]int64, c config.Config) request.Mode {
	switch {
	case res[config.NvidiaGPU] > 0 || res[c.GPU()] > 0:
		return request.Whole
	case res[c.GPUSlice()] > 0:
		return request.MIG
	case res[c.GPUCore()] > 0 || res[c.GPUMemory()] > 0:
		return request.TDM
	}
	return request.None
}

// base asks for the two lines that every pod with cards needs.
func (k *checker) base(t *Template) {
	switch s := t.SchedulerName; {
	case !s.Set || s.Value == "":
		k.add(t.spec("schedulerName"), reason.Reason{Code: "scheduler-name-missing"})
	case s.Value != SchedulerName:
		k.add(t.spec("schedulerName"), reason.Reason{Code: "scheduler-name-wrong", Detail: []string{s.Value}})
	}
	switch s := t.RuntimeClass; {
	case !s.Set || s.Value == "":
		k.add(t.spec("runtimeClassName"), reason.Reason{Code: "runtime-class-missing"})
	case s.Value != RuntimeClass:
		k.add(t.spec("runtimeClassName"), reason.Reason{Code: "runtime-class-wrong", Detail: []string{s.Value}})
	}
}

// schedulers looks over the templates of one object: a job whose roles go to
// different schedulers starts in halves.
func (k *checker) schedulers() {
	var names []string
	seen := map[string]bool{}
	last := ""
	for i := range k.w.Templates {
		t := &k.w.Templates[i]
		if !k.use(t).any {
			continue
		}
		name := t.SchedulerName.Value
		if name == "" {
			name = "default-scheduler"
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
			last = t.spec("schedulerName")
		}
	}
	if len(names) > 1 {
		k.add(last, reason.Reason{Code: "mixed-schedulers", Detail: names})
	}
}

// replica judges the label, which means something only for shares and slices.
func (k *checker) replica(t *Template, u use) {
	text, ok := t.Meta.Labels[request.ReplicaLabel]
	if !ok || t.Meta.Refused[request.ReplicaLabel] {
		return
	}
	path := t.label(request.ReplicaLabel)
	if !u.tdm && !u.mig {
		if u.whole {
			k.add(path, reason.Reason{Code: "replica-with-whole-gpu", Detail: []string{text}})
		}
		return
	}
	n, code := request.ParseCount(text, "replica")
	switch {
	case code != "":
		k.add(path, reason.Reason{Code: code, Device: request.ReplicaLabel, Detail: []string{text}})
	case n == 1:
	case u.mig:
		k.add(path, reason.Reason{Code: "replica-with-slice-untold", Want: int64(n)})
	default:
		k.add(path, reason.Reason{Code: "replica-quota-share", Want: int64(n)})
	}
}

// together judges what the containers of one pod ask side by side.
func (k *checker) together(t *Template, u use) {
	path := t.spec("containers")
	if u.tdm && u.mig {
		k.add(path, reason.Reason{Code: "tdm-and-mig-in-one-pod"})
	}
	if u.shareByApp > 1 && u.coreInSum > 100 {
		k.add(path, reason.Reason{Code: "multi-container-share", Want: u.coreInSum, Unit: "%"})
	}
	var apps int64
	for _, n := range u.wholeByApp {
		apps += n
	}
	if len(u.wholeByApp) > 1 {
		k.add(path, reason.Reason{Code: "multi-container-gpu", Want: apps})
	}
	var peak int64
	for i := range t.Containers {
		if ct := &t.Containers[i]; ct.Kind == request.Init {
			res := ct.amounts()
			peak = max(peak, res[config.NvidiaGPU]+res[k.Config.GPU()])
		}
	}
	if peak > apps {
		k.add(t.spec("initContainers"), reason.Reason{Code: "init-peak", Want: peak, Free: apps})
	}
	for i := range t.Containers {
		if ct := &t.Containers[i]; ct.Privileged && (u.tdm || u.mig) {
			k.add(ct.Path+".securityContext.privileged", reason.Reason{Code: "privileged-breaks-share", Device: ct.Name})
		}
	}
}

// nodeName is an error for shares, which need the scheduler's choice of card;
// whole cards may get by without it.
func (k *checker) nodeName(t *Template, u use) {
	if t.NodeName.Value == "" {
		return
	}
	f := k.add(t.spec("nodeName"), reason.Reason{Code: "nodename-bypasses-scheduler", Detail: []string{t.NodeName.Value}})
	if !u.tdm && !u.mig {
		f.Verdict = reason.Warn
	}
}

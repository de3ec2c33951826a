package rules

import (
	"fmt"
	"path"
	"strings"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// rdma judges the switch and what RDMA needs beside it. The host network has
// other uses, so without the switch only a pod that also has IPC_LOCK, or
// mounts the devices itself, is spoken to.
func (k *checker) rdma(t *Template, u use) {
	cards := u.whole || u.tdm || u.mig
	if !u.rdma {
		k.rdmaMissing(t, u, cards)
	} else {
		k.rdmaOn(t, u, cards)
	}
	if t.HostNetwork && (t.DNSPolicy.Value == "" || t.DNSPolicy.Value == "ClusterFirst") {
		at := t.spec("dnsPolicy")
		if !t.DNSPolicy.Set {
			at = t.spec("hostNetwork")
		}
		k.add(at, reason.Reason{Code: "host-dns"})
	}
}

func (k *checker) rdmaMissing(t *Template, u use, cards bool) {
	if !cards {
		return
	}
	if hp := t.infiniband(); hp != nil {
		k.add(hp.Path, reason.Reason{Code: "rdma-by-hand", Device: k.Config.RDMA(), Detail: []string{hp.Host}})
		return
	}
	for i := range t.Containers {
		if find(t.Containers[i].lines(), k.Config.RDMA()) != nil {
			return // rdma: "0" is spoken of already
		}
	}
	for i := range t.Containers {
		ct := &t.Containers[i]
		if u.modes[i] != request.None && t.HostNetwork && ct.ipcLock() == lockHeld {
			at := Join(ct.Path, "resources") + ".limits"
			k.add(at, reason.Reason{Code: "rdma-switch-missing", Device: k.Config.RDMA()})
			return
		}
	}
}

func (k *checker) rdmaOn(t *Template, u use, cards bool) {
	c := k.Config
	at := func(ct *Container) string {
		if a := find(ct.lines(), c.RDMA()); a != nil {
			return a.Path
		}
		return ct.Path
	}
	first := &t.Containers[u.rdmaUntoldTo]
	switch {
	case !cards:
		k.add(at(first), reason.Reason{Code: "rdma-without-gpu"})
	case u.tdm || u.mig:
		k.add(at(first), reason.Reason{Code: "rdma-with-share-untold"})
	case u.nvidia:
		k.add(at(first), reason.Reason{Code: "rdma-with-nvidia-untold"})
	}
	if hp := t.infiniband(); hp != nil {
		k.add(hp.Path, reason.Reason{Code: "rdma-by-hand", Device: c.RDMA(), Detail: []string{hp.Host}})
	}
	if !t.HostNetwork {
		k.add(t.spec("hostNetwork"), reason.Reason{Code: "hostnetwork-missing"})
	}
	var holders []string
	covered := false
	for i := range t.Containers {
		if u.modes[i] != request.None {
			holders = append(holders, t.Containers[i].Name)
			covered = covered || u.wantsRDMA[i]
		}
	}
	for i := range t.Containers {
		if ct := &t.Containers[i]; u.wantsRDMA[i] {
			astray := u.modes[i] == request.None && cards && !covered
			if astray {
				k.add(at(ct), reason.Reason{Code: "rdma-on-other-container", Device: ct.Name, Detail: holders})
			}
			if f := k.ipcLock(ct); f != nil && astray {
				f.Verdict = reason.Warn // the line itself is most likely misplaced
			}
			k.jointCount(ct)
		}
	}
}

// jointCount: aliyun.com/gpu with rdma is any whole number from 1 to 8.
func (k *checker) jointCount(ct *Container) {
	n := ct.amounts()[k.Config.GPU()]
	if n > 8 && n <= request.MaxCount {
		k.add(find(ct.lines(), k.Config.GPU()).Path, reason.Reason{Code: "gpu-above-8", Want: n})
	}
}

// infiniband is a volume that mounts the host's RDMA devices.
func (t *Template) infiniband() *HostPath {
	for i := range t.HostPaths {
		p := path.Clean(t.HostPaths[i].Host)
		if p == "/dev/infiniband" || strings.HasPrefix(p, "/dev/infiniband/") {
			return &t.HostPaths[i]
		}
	}
	return nil
}

type lock int

const (
	lockMissing lock = iota
	lockHeld
	lockOddCase // written in lower case
	lockPrefix  // written with CAP_
)

// ipcLock tells how a container comes by the capability. A dropped one is
// gone even where it is added too: runtimes drop last, ALL excepted.
func (ct *Container) ipcLock() lock {
	if ct.Privileged {
		return lockHeld
	}
	for _, d := range ct.Drop {
		if bare(d) == "IPC_LOCK" {
			return lockMissing
		}
	}
	best := lockMissing
	for _, a := range ct.Add {
		switch {
		case a == "IPC_LOCK" || strings.EqualFold(a, "ALL"):
			return lockHeld
		case strings.EqualFold(a, "IPC_LOCK"):
			best = lockOddCase
		case bare(a) == "IPC_LOCK" && best == lockMissing:
			best = lockPrefix
		}
	}
	return best
}

func bare(capability string) string {
	return strings.TrimPrefix(strings.ToUpper(capability), "CAP_")
}

// ipcLock reports a container that cannot register RDMA memory, and returns
// the finding, nil if all is well.
func (k *checker) ipcLock(ct *Container) *Finding {
	at := ct.Path + ".securityContext.capabilities"
	held := ct.ipcLock()
	switch held {
	case lockHeld:
		return nil
	case lockMissing:
		f := k.add(at, reason.Reason{Code: "ipc-lock-missing", Device: ct.Name})
		for i, d := range ct.Drop {
			if bare(d) == "IPC_LOCK" {
				f.Path, f.Hint = Index(at+".drop", i), fmt.Sprintf("do not drop %s", d)
			}
		}
		return f
	}
	f := k.add(at, reason.Reason{Code: "ipc-lock-spelling"})
	for i, a := range ct.Add {
		if bare(a) == "IPC_LOCK" {
			f.Path, f.Reason.Detail = Index(at+".add", i), []string{a}
		}
	}
	if held == lockOddCase {
		f.Verdict = reason.Warn // one common runtime takes it, others may not
	}
	return f
}

// settle fills in the memory unit where all nodes of the fleet agree on it.
func (f *Fleet) settle(c config.Config) config.Config {
	if f == nil || c.UnitKnown {
		return c
	}
	var unit config.Unit
	for _, n := range f.Nodes {
		if n.Node.Inventory == nil || n.Node.Inventory.Unit == "" {
			continue
		}
		if unit != "" && unit != n.Node.Inventory.Unit {
			return c
		}
		unit = n.Node.Inventory.Unit
	}
	if unit != "" {
		c.Unit, c.UnitKnown = unit, true
	}
	return c
}

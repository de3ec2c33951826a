package rules

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// container judges the resource lines of one container. It tells whether one
// of them looks like a mistyped GPU resource.
func (k *checker) container(ct *Container) (near bool) {
	for _, a := range ct.lines() {
		if k.extended(a.Name) {
			k.overcommit(ct, a)
		}
		switch {
		case k.Config.IsResource(a.Name):
			k.line(a)
			if r := find(ct.Requests, a.Name); r != nil && r.Path != a.Path && r.Raw != a.Raw {
				k.odd(*r)
			}
		case k.nearMiss(a):
			near = true
		}
	}
	k.combination(ct)
	return near
}

// extended tells whether Kubernetes takes the name as an extended resource,
// which comes in whole numbers and cannot be overcommitted.
func (k *checker) extended(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// overcommit applies the API server's rule on requests and limits. Amounts
// are compared, not texts: 4000m is 4.
func (k *checker) overcommit(ct *Container, a Amount) {
	limit, req := find(ct.Limits, a.Name), find(ct.Requests, a.Name)
	switch {
	case limit == nil:
		k.add(req.Path, reason.Reason{Code: "limit-missing", Device: a.Name})
	case req == nil || limit.State != Count || req.State != Count:
	case limit.Value != req.Value:
		k.add(req.Path, reason.Reason{Code: "request-not-equal-limit", Device: a.Name, Want: req.Value, Free: limit.Value})
	}
	for _, x := range []*Amount{limit, req} {
		switch {
		case x == nil:
		case x.State == Fraction:
			k.add(x.Path, reason.Reason{Code: "not-an-integer", Device: a.Name, Detail: []string{x.Raw}})
		case x.State == Negative:
			k.add(x.Path, reason.Reason{Code: "negative-amount", Device: a.Name, Detail: []string{x.Raw}})
		}
	}
}

// line judges one amount of ours by itself.
func (k *checker) line(a Amount) {
	if a.State != Count {
		return
	}
	c := k.Config
	if a.Name == c.GPUMemory() && a.Suffix {
		f := k.add(a.Path, reason.Reason{Code: "memory-unit-suffix", Device: a.Name, Want: a.Value, Detail: []string{a.Raw}})
		if _, err := strconv.ParseUint(a.Number, 10, 32); err == nil {
			f.Hint = fmt.Sprintf("write \"%s\" for %s %s: the unit is fixed by the cluster, GiB unless it runs in MiB mode",
				a.Number, a.Number, c.Unit)
		}
		return
	}
	k.odd(a)
	switch {
	case a.Name == c.GPUCore() && a.Value == 0:
		k.add(a.Path, reason.Reason{Code: "core-zero"})
	case a.Name == c.GPUSlice() && a.Value == 0:
		k.add(a.Path, reason.Reason{Code: "slice-not-allowed"})
	case a.Name == c.RDMA() && a.Value == 0:
		k.add(a.Path, reason.Reason{Code: "rdma-zero"})
	case a.Value == 0:
		k.add(a.Path, reason.Reason{Code: "gpu-zero", Device: a.Name})
	}
	if a.Name == c.GPUMemory() && !c.UnitKnown && a.Value >= doubtfulGiB && k.Fleet == nil {
		k.add(a.Path, reason.Reason{Code: "memory-unit-unknown", Want: a.Value})
	}
}

// doubtfulGiB is the amount from which a number may well have been meant in
// MiB: half of the smallest legal step there, and more than most cards have.
const doubtfulGiB = config.MiBStep / 2

// odd says which number counts where the text is not plainly that number.
func (k *checker) odd(a Amount) {
	if a.State == Count && !a.Beyond && a.Raw != strconv.FormatInt(a.Value, 10) {
		k.add(a.Path, reason.Reason{Code: "odd-quantity", Device: a.Name, Want: a.Value, Detail: []string{a.Raw}})
	}
}

// combination applies the rules that scheduler and validate share to the
// container, and what only a manifest can show.
func (k *checker) combination(ct *Container) {
	c := k.Config
	lines := ct.lines()
	path := func(res string) string {
		if a := find(lines, res); a != nil {
			return a.Path
		}
		return ct.Path + ".resources.limits"
	}
	res := ct.amounts()
	if m := find(lines, c.GPUMemory()); m != nil && m.Suffix {
		delete(res, c.GPUMemory()) // its amount means nothing
	}
	bad := request.Rules(res, c)
	for _, r := range bad {
		k.add(path(r.Device), r).Hint = hint(r, res, c)
	}
	core, hasCore := res[c.GPUCore()]
	if modeOf(res, c) == request.Whole && hasCore && core == 0 && !has(bad, "whole-and-share") {
		r := reason.Reason{Code: "whole-and-share", Device: c.GPUCore()}
		k.add(path(c.GPUCore()), r).Hint = hint(r, res, c)
	}
	if len(bad) > 0 || find(lines, c.GPUMemory()) != nil {
		return
	}
	switch modeOf(res, c) {
	case request.MIG:
		k.add(path(c.GPUSlice()), reason.Reason{Code: "slice-without-memory"})
	case request.TDM:
		k.add(path(c.GPUCore()), reason.Reason{Code: "core-without-memory"})
	}
}

func has(rs []reason.Reason, code reason.Code) bool {
	for _, r := range rs {
		if r.Code == code {
			return true
		}
	}
	return false
}

// hint is advice that the numbers make possible, empty if there is none.
func hint(r reason.Reason, res map[string]int64, c config.Config) string {
	switch {
	case r.Code == "core-out-of-range" && r.Want > 100 && r.Want <= 1600:
		n := (r.Want + 99) / 100
		return fmt.Sprintf("gpu-core is 1 to 100 percent of one card; for %d cards use the label %s: \"%d\"", n, request.ReplicaLabel, n)
	case r.Code == "slice-not-allowed" && (r.Want == 5 || r.Want == 6):
		return "use 7, the next larger; only 1, 2, 3, 4 and 7 exist"
	case r.Code == "memory-step":
		low := r.Want / config.MiBStep * config.MiBStep
		return fmt.Sprintf("write \"%d\" or \"%d\"", low, low+config.MiBStep)
	case r.Code == "memory-below-128mib" && r.Want <= 64:
		return fmt.Sprintf("this cluster counts MiB: did you mean \"%d\" (%d GiB)?", r.Want*1024, r.Want)
	case r.Code == "whole-and-share":
		return fmt.Sprintf("leave out %s: a whole card has all of its compute and memory", strings.Join(shares(res, c), ", "))
	}
	return ""
}

// shares are the names by which a container asks a part of a card.
func shares(res map[string]int64, c config.Config) []string {
	var out []string
	for _, name := range []string{c.GPUCore(), c.GPUMemory(), c.GPUSlice()} {
		if _, ok := res[name]; ok {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

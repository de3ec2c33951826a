package request

import (
	"strconv"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// ReplicaLabel is the pod label with the number of equal cards.
const ReplicaLabel = "replica"

// MaxCount bounds replica and min-member: larger than any node or group, and
// small enough that no arithmetic on it overflows.
const MaxCount = 1 << 20

// ParseCount reads a label that holds a positive whole number. what is
// "replica" or "min-member" and is the stem of the code that it returns for a
// wrong text: what + "-not-an-integer", "-not-canonical" or "-not-positive".
func ParseCount(text, what string) (int, reason.Code) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n > MaxCount:
		return 0, reason.Code(what + "-not-an-integer")
	case strconv.Itoa(n) != text:
		return 0, reason.Code(what + "-not-canonical")
	case n < 1:
		return 0, reason.Code(what + "-not-positive")
	}
	return n, ""
}

// askOf reads one container. A container that asks for nothing has Mode None.
func askOf(ct Container, c config.Config) (Ask, []reason.Reason) {
	if bad := Rules(ct.Resources, c); len(bad) > 0 {
		for i := range bad {
			bad[i].Detail = append([]string{ct.Name}, bad[i].Detail...)
		}
		return Ask{}, bad
	}
	v := amountsOf(ct.Resources, c)
	a := Ask{Container: ct.Name, Kind: ct.Kind, Count: 1}
	switch {
	case v.nvidia > 0:
		a.Mode, a.NVIDIAOnly, a.Count = Whole, true, int(v.nvidia)
	case v.gpu > 0:
		a.Mode, a.Count = Whole, int(v.gpu)
	case v.slice > 0:
		a.Mode, a.Slices, a.MemMiB = MIG, int(v.slice), v.memory*c.Unit.MiB()
	case v.core > 0 || v.memory > 0:
		a.Mode, a.Core, a.MemMiB = TDM, v.core, v.memory*c.Unit.MiB()
	}
	return a, nil
}

// amounts are the numbers of one container that decide what it wants.
type amounts struct{ nvidia, gpu, core, memory, slice, rdma int64 }

func amountsOf(res map[string]int64, c config.Config) amounts {
	return amounts{
		nvidia: res[config.NvidiaGPU], gpu: res[c.GPU()],
		core: res[c.GPUCore()], memory: res[c.GPUMemory()], slice: res[c.GPUSlice()], rdma: res[c.RDMA()],
	}
}

// maxAmount keeps amounts far from overflow when they become MiB; 16 Ti units
// of anything is a mistake and is refused as larger than any card.
const maxAmount = 1 << 44

// Rules applies the rules about the amounts of one container and their
// combination, on which scheduler and validate agree; 0 is the same as not
// there. Each reason names in Device the resource to blame. It returns nothing
// if the amounts are legal.
func Rules(res map[string]int64, c config.Config) []reason.Reason {
	v := amountsOf(res, c)
	var bad []reason.Reason
	add := func(code reason.Code, want int64, res string) {
		bad = append(bad, reason.Reason{Code: code, Want: want, Device: res})
	}
	if v.nvidia > 0 && v.gpu > 0 {
		add("two-whole-gpu-names", v.nvidia+v.gpu, c.GPU())
	}
	if share := v.share(c); (v.nvidia > 0 || v.gpu > 0) && share != "" {
		add("whole-and-share", 0, share)
	}
	if v.core > 0 && v.slice > 0 {
		add("tdm-and-mig", 0, c.GPUCore())
	}
	if v.core < 0 || v.core > 100 {
		add("core-out-of-range", v.core, c.GPUCore())
	}
	if v.slice != 0 && !SliceAllowed(v.slice) {
		add("slice-not-allowed", v.slice, c.GPUSlice())
	}
	if v.rdma < 0 || v.rdma > 1 {
		add("rdma-not-a-count", v.rdma, c.RDMA())
	}
	if v.nvidia > MaxCount {
		add("gpus-above-node", v.nvidia, config.NvidiaGPU)
	}
	if v.gpu > MaxCount {
		add("gpus-above-node", v.gpu, c.GPU())
	}
	if code := memoryRule(v.memory, c.Unit); code != "" {
		add(code, v.memory, c.GPUMemory())
	}
	return bad
}

// memoryRule judges an amount of gpu-memory in the cluster's unit.
func memoryRule(v int64, u config.Unit) reason.Code {
	switch {
	case v < 0 || v > maxAmount:
		return "memory-above-largest-gpu"
	case v == 0 || u != config.MiB:
		return ""
	case v < config.MiBStep:
		return "memory-below-128mib"
	case v%config.MiBStep != 0:
		return "memory-step"
	}
	return ""
}

// share is the first resource by which the container asks a part of a card.
func (v amounts) share(c config.Config) string {
	switch {
	case v.core > 0:
		return c.GPUCore()
	case v.slice > 0:
		return c.GPUSlice()
	case v.memory > 0:
		return c.GPUMemory()
	}
	return ""
}

// SliceAllowed tells whether gpu-slice may have the value.
func SliceAllowed(v int64) bool {
	for _, s := range mig.AllowedSlices() {
		if v == int64(s) {
			return true
		}
	}
	return false
}

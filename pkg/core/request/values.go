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
	v := amounts{
		nvidia: ct.Resources[config.NvidiaGPU], gpu: ct.Resources[c.GPU()],
		core: ct.Resources[c.GPUCore()], memory: ct.Resources[c.GPUMemory()], slice: ct.Resources[c.GPUSlice()],
	}
	if bad := v.check(c); len(bad) > 0 {
		for i := range bad {
			bad[i].Detail = append([]string{ct.Name}, bad[i].Detail...)
		}
		return Ask{}, bad
	}
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

// amounts are the five numbers of one container that decide its mode.
type amounts struct{ nvidia, gpu, core, memory, slice int64 }

// maxAmount keeps amounts far from overflow when they become MiB; 16 Ti units
// of anything is a mistake and is refused as larger than any card.
const maxAmount = 1 << 44

// check applies the rules about values and their combination, on which
// scheduler and validate agree. Codes and numbers only.
func (v amounts) check(c config.Config) []reason.Reason {
	var bad []reason.Reason
	add := func(code reason.Code, want int64, res string) {
		bad = append(bad, reason.Reason{Code: code, Want: want, Device: res})
	}
	if v.nvidia > 0 && v.gpu > 0 {
		add("two-whole-gpu-names", v.nvidia+v.gpu, c.GPU())
	}
	if (v.nvidia > 0 || v.gpu > 0) && (v.core > 0 || v.memory > 0 || v.slice > 0) {
		add("whole-and-share", 0, c.GPUCore())
	}
	if v.core > 0 && v.slice > 0 {
		add("tdm-and-mig", 0, c.GPUCore())
	}
	if v.core < 0 || v.core > 100 {
		add("core-out-of-range", v.core, c.GPUCore())
	}
	if v.slice != 0 && !sliceAllowed(v.slice) {
		add("slice-not-allowed", v.slice, c.GPUSlice())
	}
	if whole := v.nvidia + v.gpu; whole > MaxCount {
		add("gpus-above-node", whole, c.GPU())
	}
	if v.memory < 0 || v.memory > maxAmount {
		add("memory-above-largest-gpu", v.memory, c.GPUMemory())
	} else if c.Unit == config.MiB && v.memory > 0 {
		if v.memory < config.MiBStep {
			add("memory-below-128mib", v.memory, c.GPUMemory())
		} else if v.memory%config.MiBStep != 0 {
			add("memory-step", v.memory, c.GPUMemory())
		}
	}
	return bad
}

func sliceAllowed(v int64) bool {
	for _, s := range mig.AllowedSlices() {
		if v == int64(s) {
			return true
		}
	}
	return false
}

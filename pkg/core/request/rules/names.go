package rules

import (
	"sort"
	"strings"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/spelling"
)

// foreign are well-known names near ours that belong to other device plugins.
var foreign = map[string]bool{
	"amd.com/gpu": true, "netint.ca/ASIC": true, "aliyun/erdma": true, "rdma/hca": true,
	"nvidia.com/gpu.shared": true, "intel.com/gpu": true,
}

// older are the names of related products, as people bring them along.
var older = map[string]string{
	"gpu-mem": "gpu-memory", "gpumem": "gpu-memory", "gpumemory": "gpu-memory", "gpu-memory-mib": "gpu-memory",
	"gpucores": "gpu-core", "gpucore": "gpu-core", "gpu-core.percentage": "gpu-core", "gpu-percent": "gpu-core",
	"gpu-count": "gpu", "gpu-slices": "gpu-slice", "vgpu": "gpu", "gpu-shared": "gpu-core",
}

// nearMiss tells whether a resource looks like a mistyped one of ours and
// reports it. Only names in domains and with stems about GPUs are looked at,
// so that other vendors' resources are left in peace.
func (k *checker) nearMiss(a Amount) bool {
	right := Nearest(a.Name, k.Config)
	if right == "" {
		return false
	}
	r := reason.Reason{Code: "unknown-gpu-resource", Device: a.Name}
	hint := "write " + right
	if _, name, _ := strings.Cut(a.Name, "/"); name == "gpu-mem" || name == "gpu-count" || name == "gpu-core.percentage" {
		hint = "that is the gpushare name; here it is " + right
	}
	if refusedName(a.Name) {
		r.Detail = []string{"; the API server refuses this name too"}
	}
	k.add(a.Path, r).Hint = hint
	return true
}

// labelKeys looks for mistyped keys of our two labels on pods with cards,
// where the right one is not there.
func (k *checker) labelKeys(t *Template, u use) {
	rights := []string{k.Config.MinMemberLabel()}
	if u.tdm || u.mig {
		rights = append(rights, request.ReplicaLabel)
	}
	for _, right := range rights {
		if _, ok := t.Meta.Labels[right]; ok {
			continue
		}
		var near []string
		for key := range t.Meta.Labels {
			if key != request.ReplicaLabel && nearLabel(key, right) {
				near = append(near, key)
			}
		}
		sort.Strings(near)
		for _, key := range near {
			k.add(t.label(key), reason.Reason{Code: "label-near-miss", Device: right, Detail: []string{key}})
		}
	}
}

// nearLabel compares keys without domain, case and underscores; the domain
// must be none, ours or nearly ours.
func nearLabel(key, right string) bool {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
	split := func(s string) (domain, name string) {
		domain, name, ok := strings.Cut(plain(s), "/")
		if !ok {
			return "", domain
		}
		return domain, name
	}
	domain, name := split(key)
	home, want := split(right)
	if home == "" {
		home = "aliyun.com"
	}
	near := domain == "" || domain == "alibabacloud.com" || spelling.Distance(domain, home) <= 2
	return near && spelling.Distance(name, want) <= 1
}

// refusedName is the API server's rule for extended resources beyond label
// key syntax: a lower-case domain, and no "requests." before it.
func refusedName(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	return !ok || domain != strings.ToLower(domain) || strings.HasPrefix(domain, "requests.")
}

// Nearest is the resource that a mistyped name most likely means, empty if
// the name is right, or foreign, or not about GPUs at all.
func Nearest(name string, c config.Config) string {
	if c.IsResource(name) || foreign[name] {
		return ""
	}
	plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, p := range []string{"requests.", "limits."} {
		plain = strings.TrimPrefix(plain, p)
	}
	domain, stem, qualified := strings.Cut(plain, "/")
	if !qualified {
		domain, stem = "", plain
	}
	home := gpuDomain(domain, c)
	if home == "" {
		return ""
	}
	best := nearestStem(stem, home, c)
	if best == "" || (!qualified && !strings.HasPrefix(stem, "gpu")) {
		return ""
	}
	if best == "gpu" && home == "nvidia.com" {
		return config.NvidiaGPU
	}
	if best == "gpu" && home == "amd.com" {
		return "amd.com/gpu"
	}
	return c.Prefix + "/" + best
}

// gpuDomain is the domain of ours that was meant, empty if it is another's.
func gpuDomain(domain string, c config.Config) string {
	switch domain {
	case "", "alibabacloud.com", "alibaba.com", "aliyun", "aliyun.cn", "alibabacloud":
		return c.Prefix
	case "nvidia", "nvidia.com":
		return "nvidia.com"
	case "amd", "amd.com":
		return "amd.com"
	}
	for _, home := range []string{"nvidia.com", c.Prefix} {
		if spelling.Distance(domain, home) <= 2 {
			return home
		}
	}
	return ""
}

func nearestStem(stem, home string, c config.Config) string {
	if right, ok := older[stem]; ok {
		return right
	}
	stems := []string{"gpu", "gpu-core", "gpu-memory", "gpu-slice", "rdma"}
	best, least := "", 3
	for _, s := range stems {
		limit := 2
		if len(s) <= 4 {
			limit = 1
		}
		if d := spelling.Distance(stem, s); d <= limit && d < least {
			best, least = s, d
		}
	}
	if best == "" && home == c.Prefix && strings.HasPrefix(stem, "gpu-") {
		best = "gpu-core" // nothing else of this domain begins so
	}
	return best
}

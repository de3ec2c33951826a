package manifest

import (
	"sort"

	"lj.aliyun.com/kit/pkg/core/request/rules"
)

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func (j *judge) refusals(n *Node, g gvk, path string, w *rules.Workload) {}

package rules

import (
	"sort"
	"strings"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/spelling"
)

// policies judges the annotations with the pod's own policies. The scheduler
// goes by the cluster's where it cannot read one, so nothing here is more than
// a warning.
func (k *checker) policies(t *Template) {
	for _, key := range []string{config.NodePolicyKey, config.CardPolicyKey} {
		text, ok := t.Meta.Annotations[key]
		switch {
		case !ok:
			k.strayPolicy(t, key)
		case config.PolicyNamed(text) == "":
			f := k.add(Join(Join(t.Meta.Path, "annotations"), key), reason.Reason{Code: "policy-unknown", Device: key, Detail: []string{text}})
			if near := spelling.Closest(strings.TrimSpace(text), policyNames()); near != "" {
				f.Hint = "did you mean " + near + "?"
			}
		}
	}
}

func policyNames() []string {
	var out []string
	for _, p := range config.Policies() {
		out = append(out, string(p))
	}
	return out
}

// strayPolicy looks for a policy where nobody reads it: as a label, on an
// object above the template, or under a mistyped key.
func (k *checker) strayPolicy(t *Template, key string) {
	stray := func(m Meta, field, as string) {
		k.add(Join(Join(m.Path, field), as), reason.Reason{Code: "policy-not-read", Device: key, Detail: []string{as}})
	}
	if _, ok := t.Meta.Labels[key]; ok {
		stray(t.Meta, "labels", key)
	}
	for _, as := range nearPolicy(t.Meta.Annotations, key, k.Config) {
		stray(t.Meta, "annotations", as)
	}
	for _, m := range k.w.Owners {
		if m.Path == t.Meta.Path || !governs(m, t) {
			continue
		}
		if _, ok := m.Annotations[key]; ok {
			stray(m, "annotations", key)
		}
		if _, ok := m.Labels[key]; ok {
			stray(m, "labels", key)
		}
	}
}

// nearPolicy lists the keys that look like key, sorted: without its domain, in
// another of ours or nearly in its own, and with a letter wrong in the name.
func nearPolicy(keys map[string]string, key string, c config.Config) []string {
	home, want, _ := strings.Cut(key, "/")
	var out []string
	for have := range keys {
		domain, name, qualified := strings.Cut(strings.ReplaceAll(strings.ToLower(have), "_", "-"), "/")
		if !qualified {
			domain, name = home, domain
		}
		ours := domain == c.Prefix || domain == "alibabacloud.com" || spelling.Distance(domain, home) <= 2
		if ours && have != key && spelling.Distance(name, want) <= 2 {
			out = append(out, have)
		}
	}
	sort.Strings(out)
	return out
}

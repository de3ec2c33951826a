package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/spelling"
)

// maxConfigBytes bounds the text; an API object cannot be much larger.
const maxConfigBytes = 1 << 20

const (
	topologyPrefix = "topology."
	presetKey      = topologyPrefix + "preset"
)

// configKey is one key of the ConfigMap's YAML.
type configKey struct {
	path string
	get  func(config.Config) string
	set  func(*config.Config, any) error
}

var configKeys = []configKey{
	{"resourcePrefix", func(c config.Config) string { return c.Prefix },
		func(c *config.Config, v any) error { return domain(&c.Prefix, v) }},
	{"memoryUnit", func(c config.Config) string { return string(c.Unit) }, setUnit},
	{"migModels", func(c config.Config) string { return strings.Join(c.MIGModels, ",") }, setModels},
	{"nodePolicy", func(c config.Config) string { return string(c.NodePolicy) },
		func(c *config.Config, v any) error { return setPolicy(&c.NodePolicy, v) }},
	{"cardPolicy", func(c config.Config) string { return string(c.CardPolicy) },
		func(c *config.Config, v any) error { return setPolicy(&c.CardPolicy, v) }},
	// Before the keys, which win over it.
	{presetKey, func(c config.Config) string { return c.Topology.Preset }, setPreset},
	{topologyPrefix + "hyperNode", func(c config.Config) string { return c.Topology.HyperNode },
		func(c *config.Config, v any) error { return labelKey(&c.Topology.HyperNode, v) }},
	{topologyPrefix + "leaf", func(c config.Config) string { return c.Topology.Leaf },
		func(c *config.Config, v any) error { return labelKey(&c.Topology.Leaf, v) }},
	{topologyPrefix + "networkPod", func(c config.Config) string { return c.Topology.NetworkPod },
		func(c *config.Config, v any) error { return labelKey(&c.Topology.NetworkPod, v) }},
	{"gangTimeoutSeconds", func(c config.Config) string { return strconv.FormatInt(c.GangTimeoutSeconds, 10) },
		func(c *config.Config, v any) error { return seconds(&c.GangTimeoutSeconds, v, 1) }},
	{"backfillAgeSeconds", func(c config.Config) string { return strconv.FormatInt(c.BackfillAgeSeconds, 10) },
		func(c *config.Config, v any) error { return seconds(&c.BackfillAgeSeconds, v, 0) }},
}

// ConfigKeys lists the keys of the ConfigMap, nested ones with a dot.
func ConfigKeys() []string {
	out := make([]string, len(configKeys))
	for i, k := range configKeys {
		out[i] = k.path
	}
	return out
}

// parseConfig returns the settings and the keys that the text sets, sorted. A
// preset sets the keys that it stands for.
func parseConfig(text string) (config.Config, []string, error) {
	c := config.Default()
	if len(text) > maxConfigBytes {
		return c, nil, fmt.Errorf("%s: %d bytes, more than %d", ConfigKey, len(text), maxConfigBytes)
	}
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return c, nil, fmt.Errorf("%s: not valid YAML: %s", ConfigKey, yamlText(err))
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var top any
	if err := dec.Decode(&top); err != nil {
		return c, nil, fmt.Errorf("%s: not valid YAML: %w", ConfigKey, err)
	}
	values := map[string]any{}
	var problems []error
	switch m := top.(type) {
	case nil:
	case map[string]any:
		problems = flatten("", m, values)
	default:
		return c, nil, fmt.Errorf("%s: must be a mapping of keys to values", ConfigKey)
	}
	var set []string
	_, preset := values[presetKey]
	for _, k := range configKeys {
		v, ok := values[k.path]
		if !ok {
			if preset && strings.HasPrefix(k.path, topologyPrefix) {
				set = append(set, k.path)
			}
			continue
		}
		if err := k.set(&c, v); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", k.path, err))
		}
		set = append(set, k.path)
		delete(values, k.path)
	}
	for path := range values {
		problems = append(problems, unknownKey(path, ConfigKeys()))
	}
	sort.Slice(problems, func(i, j int) bool { return problems[i].Error() < problems[j].Error() })
	sort.Strings(set)
	return c, set, errors.Join(problems...)
}

// flatten turns nested mappings into dotted keys. A null value is as good as
// an absent key only where YAML users mean it, so it is a problem here.
func flatten(prefix string, m map[string]any, out map[string]any) []error {
	var problems []error
	for k, v := range m {
		path := prefix + k
		switch t := v.(type) {
		case map[string]any:
			if prefix == "" && k == "topology" {
				problems = append(problems, flatten(path+".", t, out)...)
				continue
			}
		case nil:
			problems = append(problems, fmt.Errorf("%s: no value; leave the key out for the default", path))
			continue
		}
		out[path] = v
	}
	return problems
}

func unknownKey(path string, known []string) error {
	if near := spelling.Closest(path, known); near != "" {
		return fmt.Errorf("%s: unknown key, did you mean %s?", path, near)
	}
	return fmt.Errorf("%s: unknown key; the keys are %s", path, strings.Join(known, ", "))
}

func text(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("must be a text, not %s", show(v))
	}
	return s, nil
}

func domain(dst *string, v any) error {
	s, err := text(v)
	if err != nil {
		return err
	}
	if msgs := validation.IsDNS1123Subdomain(s); len(msgs) > 0 {
		return fmt.Errorf("%q is not a domain name such as aliyun.com", s)
	}
	*dst = s
	return nil
}

func labelKey(dst *string, v any) error {
	s, err := text(v)
	if err != nil {
		return err
	}
	if msgs := validation.IsQualifiedName(s); len(msgs) > 0 {
		return fmt.Errorf("%q is not a label key: %s", s, msgs[0])
	}
	*dst = s
	return nil
}

func setUnit(c *config.Config, v any) error {
	s, err := text(v)
	if err != nil {
		return err
	}
	u, err := config.ParseUnit(s)
	if err != nil {
		return fmt.Errorf("%q: must be GiB or MiB", s)
	}
	c.Unit, c.UnitKnown = u, true
	return nil
}

func setPolicy(dst *config.Policy, v any) error {
	s, err := text(v)
	if err != nil {
		return err
	}
	p, err := config.ParsePolicy(s)
	if err != nil {
		return fmt.Errorf("%q: must be binpack or spread", s)
	}
	*dst = p
	return nil
}

func setPreset(c *config.Config, v any) error {
	s, err := text(v)
	if err != nil {
		return err
	}
	t, ok := config.TopologyPreset(s)
	if !ok {
		names := config.TopologyPresets()
		if near := spelling.Closest(s, names); near != "" {
			return fmt.Errorf("%.60q: unknown preset, did you mean %s?", s, near)
		}
		return fmt.Errorf("%.60q: unknown preset; the presets are %s", s, strings.Join(names, ", "))
	}
	c.Topology = t
	return nil
}

func setModels(c *config.Config, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("must be a list of model names, not %s", show(v))
	}
	models := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok || s == "" || strings.ContainsAny(s, " -_\t\n") {
			return fmt.Errorf("[%d]: %s is not one word such as A100", i, show(e))
		}
		models = append(models, s)
	}
	c.MIGModels = models
	return nil
}

// maxSeconds is a week: longer is a slip of a digit, or milliseconds.
const maxSeconds = 7 * 24 * 3600

func seconds(dst *int64, v any, least int64) error {
	n, ok := v.(json.Number)
	if !ok {
		return fmt.Errorf("must be a whole number of seconds, not %s", show(v))
	}
	i, err := n.Int64()
	if err != nil || i < least || i > maxSeconds {
		return fmt.Errorf("%s: must be a whole number of seconds from %d to %d", n, least, maxSeconds)
	}
	*dst = i
	return nil
}

// show prints a wrong value short enough for one line.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	if len(b) > 60 {
		return string(b[:57]) + "…"
	}
	return string(b)
}

// yamlText is what a YAML decoder complains about, on one line.
func yamlText(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	for _, noise := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: "} {
		s = strings.TrimPrefix(s, noise)
	}
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

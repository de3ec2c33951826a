package kube

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lj.aliyun.com/kit/pkg/core/config"
)

// OriginKind is where a cluster's settings came from.
type OriginKind string

// The kinds of origin.
const (
	// FromConfigMap: the ConfigMap was read and understood.
	FromConfigMap OriginKind = "configmap"
	// FromSnapshot: the ConfigMap in a snapshot was read and understood.
	FromSnapshot OriginKind = "snapshot"
	// FromDefault: there is no ConfigMap, or it cannot be read; Why tells.
	FromDefault OriginKind = "default"
)

// OriginKinds lists every OriginKind.
func OriginKinds() []OriginKind { return []OriginKind{FromConfigMap, FromSnapshot, FromDefault} }

// Origin says where a Config came from, for the answers that rest on it.
type Origin struct {
	Kind OriginKind
	// Why is the reason for FromDefault, in words; empty otherwise.
	Why string
	// Absent: the cluster was asked and has no ConfigMap, so the defaults are
	// its settings. In the other FromDefault cases nobody knows.
	Absent bool
	// Set are the keys that the ConfigMap sets, sorted; the others are defaults.
	Set []string
}

// String is one clause: "configmap lj-system/lj-config", "built-in defaults
// (reason)".
func (o Origin) String() string {
	name := Namespace + "/" + ConfigMap
	switch o.Kind {
	case FromConfigMap:
		return "configmap " + name
	case FromSnapshot:
		return "configmap " + name + " of the snapshot"
	}
	if o.Why == "" {
		return "built-in defaults"
	}
	return "built-in defaults (" + o.Why + ")"
}

// Sets tells whether the ConfigMap sets this key.
func (o Origin) Sets(key string) bool {
	i := sort.SearchStrings(o.Set, key)
	return i < len(o.Set) && o.Set[i] == key
}

// ReadConfig reads the cluster's settings. It never fails: where the
// ConfigMap is absent, forbidden, broken or out of reach, the result is
// config.Default and the origin says why.
func ReadConfig(ctx context.Context, client kubernetes.Interface) (config.Config, Origin) {
	name := Namespace + "/" + ConfigMap
	cm, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, ConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return config.Default(), Origin{Kind: FromDefault, Why: "no configmap " + name, Absent: true}
	case apierrors.IsForbidden(err):
		return config.Default(), Origin{Kind: FromDefault, Why: "not allowed to get configmap " + name}
	case apierrors.IsUnauthorized(err):
		return config.Default(), Origin{Kind: FromDefault, Why: "not logged in to the cluster"}
	case errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err):
		return config.Default(), Origin{Kind: FromDefault, Why: "the cluster did not answer in time"}
	case err != nil:
		return config.Default(), Origin{Kind: FromDefault, Why: "the cluster cannot be reached"}
	}
	return configOf(cm.Data, FromConfigMap)
}

// configOf reads the ConfigMap's data.
func configOf(data map[string]string, kind OriginKind) (config.Config, Origin) {
	text, ok := data[ConfigKey]
	if !ok {
		return config.Default(), Origin{Kind: FromDefault,
			Why: fmt.Sprintf("configmap %s/%s has no key %s", Namespace, ConfigMap, ConfigKey)}
	}
	c, set, err := parseConfig(text)
	if err != nil {
		return config.Default(), Origin{Kind: FromDefault,
			Why: fmt.Sprintf("configmap %s/%s: %s", Namespace, ConfigMap, strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	return c, Origin{Kind: kind, Set: set}
}

// ParseConfig reads the text under ConfigKey: YAML, each key at most once,
// case-sensitive, all keys optional. What is not set keeps its default;
// Config.UnitKnown is true if memoryUnit is set. On wrong input it returns
// config.Default and one error that lists every problem, a line each.
func ParseConfig(data string) (config.Config, error) {
	c, _, err := parseConfig(data)
	if err != nil {
		return config.Default(), err
	}
	return c, nil
}

// ConfigValue is one key of the cluster's settings with its value as text.
type ConfigValue struct{ Key, Value string }

// ConfigValues lists every key of the ConfigMap with its value in c, in the
// documented order.
func ConfigValues(c config.Config) []ConfigValue {
	out := make([]ConfigValue, 0, len(configKeys))
	for _, k := range configKeys {
		out = append(out, ConfigValue{k.path, k.get(c)})
	}
	return out
}

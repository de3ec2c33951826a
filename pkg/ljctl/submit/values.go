package submit

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/manifest"
)

// invalid is a value that can never be asked for: exit code 3, as INVALID.
func invalid(code reason.Code, format string, args ...any) error {
	return &cliutil.ExitError{Code: reason.ExitNo, Err: fmt.Errorf("INVALID %s: "+format, append([]any{code}, args...)...)}
}

// parseCore reads "50" or "50%".
func parseCore(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	switch {
	case err != nil:
		return 0, cliutil.Usagef("--gpu-core %q: must be a whole percentage of one card, 1 to 100", text)
	case n == 0:
		return 0, cliutil.WithHint(invalid("core-zero", "--gpu-core 0 gives the program no defined share of the card"),
			"leave --gpu-core out for no limit on compute")
	case n < 1 || n > 100:
		return 0, invalid("core-out-of-range", "--gpu-core %d: must be 1 to 100, percent of one card", n)
	}
	return n, nil
}

// parseMemory reads a bare number, which is in the cluster's unit, or one with
// a unit of its own, which is converted; note says what became of it.
func parseMemory(text string, u config.Unit) (n int64, note string, err error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 1 {
			return 0, "", invalid("memory-zero", "--gpu-memory %d: must be above 0", n)
		}
		return n, "", nil
	}
	q, err := manifest.ParseQuantity(strings.TrimSuffix(text, "B"))
	if err != nil || !strings.HasSuffix(strings.TrimSuffix(text, "B"), "i") {
		return 0, "", cliutil.WithHint(cliutil.Usagef("--gpu-memory %q: must be a whole number", text),
			"write a number of %s, or an amount such as 4Gi or 512Mi", u)
	}
	bytes, unit := q.Value(), u.MiB()<<20
	if bytes <= 0 || bytes%unit != 0 {
		lower := bytes / unit
		return 0, "", cliutil.WithHint(invalid("memory-unit-suffix", "--gpu-memory %s is no whole number of %s, in which this cluster counts gpu-memory", text, u),
			"use %d%s or %d%s", max(1, lower), strings.TrimSuffix(string(u), "B"), max(1, lower)+1, strings.TrimSuffix(string(u), "B"))
	}
	return bytes / unit, fmt.Sprintf("--gpu-memory %s is written as \"%d\": this cluster counts gpu-memory in %s", text, bytes/unit, u), nil
}

func parseEnv(list []string) ([]v1.EnvVar, error) {
	var out []v1.EnvVar
	for _, e := range list {
		name, value, ok := strings.Cut(e, "=")
		if !ok || len(validation.IsEnvVarName(name)) > 0 {
			return nil, cliutil.Usagef("--env %q: must be NAME=VALUE", e)
		}
		out = append(out, v1.EnvVar{Name: name, Value: value})
	}
	return out, nil
}

func parseEnvFrom(list []string) ([]v1.EnvFromSource, error) {
	var out []v1.EnvFromSource
	for _, e := range list {
		what, name, _ := strings.Cut(e, "/")
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			what = ""
		}
		ref := v1.LocalObjectReference{Name: name}
		switch what {
		case "configmap", "cm":
			out = append(out, v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref}})
		case "secret":
			out = append(out, v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: ref}})
		default:
			return nil, cliutil.Usagef("--env-from %q: must be configmap/NAME or secret/NAME", e)
		}
	}
	return out, nil
}

// parseMount reads NAME:/PATH[:ro].
func parseMount(flag, text string, config bool) (mount, error) {
	parts := strings.Split(text, ":")
	bad := len(parts) < 2 || len(parts) > 3 || len(validation.IsDNS1123Subdomain(parts[0])) > 0
	if !bad {
		bad = !path.IsAbs(parts[1]) || len(parts) == 3 && parts[2] != "ro"
	}
	if bad {
		return mount{}, cliutil.Usagef("--%s %q: must be NAME:/PATH or NAME:/PATH:ro", flag, text)
	}
	return mount{source: parts[0], config: config, path: path.Clean(parts[1]), readOnly: len(parts) == 3 || config}, nil
}

// parseToleration reads KEY[=VALUE][:EFFECT]; a key alone tolerates every
// effect, and "*" every taint.
func parseToleration(text string) (v1.Toleration, error) {
	rest, effect, hasEffect := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(rest, "=")
	t := v1.Toleration{Key: key, Value: value, Effect: v1.TaintEffect(effect), Operator: v1.TolerationOpExists}
	if hasValue {
		t.Operator = v1.TolerationOpEqual
	}
	if key == "*" && !hasValue {
		t.Key = ""
	} else if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		return t, cliutil.Usagef("--toleration %q: must be KEY[=VALUE][:EFFECT], or * for every taint", text)
	}
	switch t.Effect {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
	case "":
		if hasEffect {
			return t, cliutil.Usagef("--toleration %q: the effect after the colon is empty", text)
		}
	default:
		return t, cliutil.Usagef("--toleration %q: the effect must be NoSchedule, PreferNoSchedule or NoExecute", text)
	}
	return t, nil
}

// parsePairs reads KEY=VALUE texts whose keys and values labels could have;
// annotations take any value.
func parsePairs(flag string, list []string, anyValue bool) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, e := range list {
		k, v, ok := strings.Cut(e, "=")
		if !ok {
			return nil, cliutil.Usagef("--%s %q: must be KEY=VALUE", flag, e)
		}
		if msgs := validation.IsQualifiedName(k); len(msgs) > 0 {
			return nil, cliutil.Usagef("--%s %q: key: %s", flag, e, msgs[0])
		}
		if msgs := validation.IsValidLabelValue(v); !anyValue && len(msgs) > 0 {
			return nil, cliutil.Usagef("--%s %q: value: %s", flag, e, msgs[0])
		}
		if _, twice := out[k]; twice {
			return nil, cliutil.Usagef("--%s: %s is given twice", flag, k)
		}
		out[k] = v
	}
	return out, nil
}

// parseAmount reads a CPU or memory amount; an empty text is none.
func parseAmount(flag, text string) (*resource.Quantity, error) {
	if text == "" {
		return nil, nil
	}
	q, err := manifest.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return nil, cliutil.Usagef("--%s %q: must be an amount above 0 such as 8, 500m or 16Gi", flag, text)
	}
	return &q, nil
}

package kube

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"lj.aliyun.com/kit/pkg/core/config"
)

func TestParseConfigSetsEveryKey(t *testing.T) {
	got, err := ParseConfig(`
resourcePrefix: gpu.example.com
memoryUnit: MiB
migModels: [A100, H100]
nodePolicy: spread
cardPolicy: spread
topology: {preset: volcano, hyperNode: a/h, leaf: a/l, networkPod: a/p}
gangTimeoutSeconds: 60
backfillAgeSeconds: 30
`)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{Prefix: "gpu.example.com", Unit: config.MiB, UnitKnown: true, MIGModels: []string{"A100", "H100"},
		NodePolicy: config.Spread, CardPolicy: config.Spread, GangTimeoutSeconds: 60, BackfillAgeSeconds: 30,
		Topology: config.Topology{Preset: "volcano", HyperNode: "a/h", Leaf: "a/l", NetworkPod: "a/p"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got, want := len(ConfigValues(got)), len(ConfigKeys()); got != want {
		t.Errorf("%d values for %d keys", got, want)
	}
}

func TestPresetsOfLabelKeys(t *testing.T) {
	volcano, _ := config.TopologyPreset("volcano")
	for text, want := range map[string]config.Topology{
		"topology: {preset: volcano}":            volcano,
		"topology: {leaf: a/l, preset: volcano}": {Preset: "volcano", HyperNode: volcano.HyperNode, Leaf: "a/l", NetworkPod: volcano.NetworkPod},
		"topology: {preset: ack}":                config.Default().Topology,
	} {
		c, err := ParseConfig(text)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, c.Topology); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

func TestParseConfigKeepsDefaults(t *testing.T) {
	for _, text := range []string{"", "{}", "# nothing\n", "null"} {
		got, err := ParseConfig(text)
		if d := cmp.Diff(config.Default(), got); d != "" || err != nil {
			t.Errorf("%q: %v %s", text, err, d)
		}
	}
}

func TestParseConfigNamesEveryProblem(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"mistyped keys get a suggestion": {"memoryunit: GiB\nnodePolcy: spread\n", []string{
			"memoryunit: unknown key, did you mean memoryUnit?", "nodePolcy: unknown key, did you mean nodePolicy?"}},
		"nested keys too":        {"topology: {hypernode: x}", []string{"topology.hypernode: unknown key, did you mean topology.hyperNode?"}},
		"foreign keys list ours": {"replicas: 2", []string{"replicas: unknown key; the keys are resourcePrefix, memoryUnit"}},
		"values are checked": {"memoryUnit: GB\nnodePolicy: dense\ngangTimeoutSeconds: 3m\nmigModels: A100\nresourcePrefix: A b\n", []string{
			`gangTimeoutSeconds: must be a whole number of seconds, not "3m"`, "migModels: must be a list of model names",
			`memoryUnit: "GB": must be GiB or MiB`, `nodePolicy: "dense": must be binpack or spread`,
			`resourcePrefix: "A b" is not a domain name`}},
		"mistyped presets get a suggestion": {"topology: {preset: volcan}", []string{`topology.preset: "volcan": unknown preset, did you mean volcano?`}},
		"other presets list ours":           {"topology: {preset: none}", []string{`topology.preset: "none": unknown preset; the presets are ack, volcano, topograph`}},
		"a preset is a text":                {"topology: {preset: 1}", []string{"topology.preset: must be a text, not 1"}},
		"duplicates are refused":            {"memoryUnit: GiB\nmemoryUnit: MiB\n", []string{"not valid YAML", "already set"}},
		"no YAML at all":                    {"a: b: c", []string{"config.yaml: not valid YAML"}},
		"a list is no mapping":              {"- memoryUnit", []string{"must be a mapping"}},
		"an empty value is no null":         {"memoryUnit:\n", []string{"memoryUnit: no value"}},
		"models are single words":           {`migModels: ["NVIDIA A100"]`, []string{`migModels: [0]: "NVIDIA A100" is not one word`}},
		"ages are positive":                 {"backfillAgeSeconds: -1", []string{"backfillAgeSeconds: -1: must be"}},
		"alias bombs do not expand":         {bomb(), []string{"not valid YAML"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig(c.text)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
			if d := cmp.Diff(config.Default(), got); d != "" {
				t.Errorf("not the defaults: %s", d)
			}
		})
	}
}

func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		p, n := string(rune('a'+i-1)), string(rune('a'+i))
		if i == 1 {
			p = "a0"
		}
		b.WriteString(n + ": &" + n + " [" + strings.TrimSuffix(strings.Repeat("*"+p+",", 9), ",") + "]\n")
	}
	return b.String()
}

func TestReadConfigNeverFails(t *testing.T) {
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ConfigMap}, Data: map[string]string{ConfigKey: "memoryUnit: MiB"}}
	broken := cm.DeepCopy()
	broken.Data[ConfigKey] = "memoryUnt: MiB"
	for name, c := range map[string]struct {
		objects []runtime.Object
		err     error
		want    Origin
		unit    config.Unit
	}{
		"read":      {[]runtime.Object{cm}, nil, Origin{Kind: FromConfigMap, Set: []string{"memoryUnit"}}, config.MiB},
		"absent":    {nil, nil, Origin{Kind: FromDefault, Why: "no configmap lj-system/lj-config", Absent: true}, config.GiB},
		"broken":    {[]runtime.Object{broken}, nil, Origin{Kind: FromDefault, Why: "configmap lj-system/lj-config: memoryUnt: unknown key, did you mean memoryUnit?"}, config.GiB},
		"forbidden": {nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, ConfigMap, nil), Origin{Kind: FromDefault, Why: "not allowed to get configmap lj-system/lj-config"}, config.GiB},
		"too slow":  {nil, context.DeadlineExceeded, Origin{Kind: FromDefault, Why: "the cluster did not answer in time"}, config.GiB},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(c.objects...)
			if c.err != nil {
				client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			}
			got, origin := ReadConfig(t.Context(), client)
			if d := cmp.Diff(c.want, origin); d != "" {
				t.Error(d)
			}
			if got.Unit != c.unit {
				t.Errorf("unit %s, want %s", got.Unit, c.unit)
			}
			if origin.Sets("memoryUnit") != got.UnitKnown {
				t.Error("Sets and UnitKnown disagree")
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("memoryUnit: MiB\ntopology: {leaf: x}")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig(text)
		if err != nil && cmp.Diff(config.Default(), c) != "" {
			t.Error("an error with settings")
		}
	})
}

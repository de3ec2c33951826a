package submit

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
	"lj.aliyun.com/kit/pkg/manifest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// parse runs the command line up to the object, without a cluster.
func parse(c config.Config, line ...string) (*plan, error) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	f := cliutil.NewFactory("ljctl", streams)
	f.ConfigFlags.Namespace = ptr("team")
	o := &options{f: f}
	cmd := NewCmd(cliutil.NewFactory("ljctl", streams))
	cmd.ResetFlags()
	o.addFlags(cmd)
	if err := cmd.ParseFlags(line); err != nil {
		return nil, err
	}
	if err := o.complete(cmd, cmd.Flags().Args()); err != nil {
		return nil, err
	}
	return o.fromFlags(c)
}

func ptr[T any](v T) *T { return &v }

func mib() config.Config {
	c := config.Default()
	c.Unit, c.UnitKnown = config.MiB, true
	return c
}

func TestManifestsFromFlags(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  config.Config
		args string
	}{
		"whole-nvidia":  {config.Default(), "train --image pytorch:2 --gpus 2 -- python train.py --lr 1e-4"},
		"whole-any":     {config.Default(), "train --image i --gpus 4 --vendor ppu"},
		"tdm":           {config.Default(), "infer --image i --gpu-core 50 --gpu-memory 4"},
		"tdm-replica":   {config.Default(), "infer --image i --gpu-core 50% --gpu-memory 4096Mi --gpus 2"},
		"tdm-mib":       {mib(), "infer --image i --gpu-core 50 --gpu-memory 4Gi"},
		"mig":           {config.Default(), "cut --image i --gpu-slice 3 --gpu-memory 4"},
		"pod":           {config.Default(), "nb --kind pod --image i --gpus 1 --restart OnFailure --deadline 8h"},
		"gang":          {config.Default(), "gang --image i --gpus 1 --vendor any --workers 7 --rdma --ttl-after-finished 24h --deadline 1h"},
		"one-jobset":    {config.Default(), "gang --image i --gpus 1 --kind jobset"},
		"parallel-job":  {config.Default(), "sweep --image i --gpus 1 --kind job --workers 3 --restart OnFailure"},
		"generate-name": {config.Default(), "--generate-name run- --image i --gpus 1"},
		"everything": {config.Default(), "all --image i --gpus 1 --cpu 8 --memory 64Gi --shm-size 16Gi -e A=1,2 -e B= --env-from secret/s --env-from configmap/c " +
			"--mount data:/data --mount data:/more:ro --config-map cfg:/etc/cfg --working-dir /work --image-pull-secret reg --image-pull-policy Always " +
			"--service-account sa --node-selector zone=a --toleration gpu=yes:NoSchedule --toleration * --gpu-model NVIDIA-H800 --priority-class high " +
			"--labels owner=me --annotation note=a,b=c --ttl-after-finished 1h --backoff-limit 0 --scheduler other --runtime-class other-class"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parse(c.cfg, strings.Fields(c.args)...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(p.items[0].object.Object)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whatever flags are accepted, the result passes our own checks.
func TestWhatIsEmittedIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config.Default()
		if rapid.Bool().Draw(t, "mib") {
			cfg = mib()
		}
		args := drawFlags(t)
		p, err := parse(cfg, args...)
		if err != nil {
			return // refused is fine
		}
		b, err := yaml.Marshal(p.items[0].object.Object)
		if err != nil {
			t.Fatal(err)
		}
		docs := manifest.Parse(manifest.Source{Name: "flags", Data: b})
		judged := docs[0].Judge(rules.Options{Config: cfg})
		for _, f := range judged.Findings {
			if f.Verdict != reason.OK && f.Verdict != reason.Warn && !fault(f.Reason.Code) {
				t.Errorf("%v\n%s %s: %s\n%s", args, f.Verdict, f.Reason.Code, f.Reason.Sentence(), b)
			}
		}
	})
}

// fault are findings about amounts that the user chose and that are judged
// after the object is made.
func fault(c reason.Code) bool {
	switch c {
	case "memory-step", "memory-below-128mib", "slice-not-allowed":
		return true
	}
	return false
}

func drawFlags(t *rapid.T) []string {
	args := []string{rapid.SampledFrom([]string{"a", "train", "a-b-c9"}).Draw(t, "name"), "--image", "i"}
	add := func(label string, choices ...string) {
		if v := rapid.SampledFrom(append([]string{""}, choices...)).Draw(t, label); v != "" {
			args = append(args, "--"+label, v)
		}
	}
	add("gpus", "1", "2", "8")
	add("vendor", "nvidia", "ppu", "amd", "any")
	add("gpu-core", "1", "50", "100", "30%")
	add("gpu-memory", "1", "4", "128", "4Gi", "512Mi", "130")
	add("gpu-slice", "1", "2", "3", "4", "5", "7")
	add("replica", "1", "2", "4")
	add("workers", "1", "2", "7")
	add("kind", "auto", "pod", "job", "jobset")
	add("restart", "Never", "OnFailure")
	add("cpu", "1", "500m")
	add("memory", "1Gi")
	add("shm-size", "1Gi")
	add("env", "A=b")
	add("mount", "data:/data:ro")
	add("config-map", "c:/c")
	add("node-selector", "zone=a")
	add("toleration", "k", "k=v:NoExecute", "*")
	add("gpu-model", "NVIDIA-H800")
	add("labels", "app=x", "team=y")
	add("ttl-after-finished", "1h")
	add("deadline", "1h")
	if rapid.Bool().Draw(t, "rdma") {
		args = append(args, "--rdma")
	}
	return args
}

func TestNamesThatGrow(t *testing.T) {
	n := func(k int) string { return strings.Repeat("a", k) }
	for name, c := range map[string]struct {
		spec spec
		want reason.Code
	}{
		"45 letters and 16 workers":        {spec{kind: kindJobSet, name: n(45), workers: 16}, ""},
		"46 letters and 16 workers":        {spec{kind: kindJobSet, name: n(46), workers: 16}, "name-too-long"},
		"46 letters and 10 workers":        {spec{kind: kindJobSet, name: n(46), workers: 10}, ""},
		"a dot in a JobSet":                {spec{kind: kindJobSet, name: "gang.v2", workers: 2}, "name-not-dns-label"},
		"a digit first in a JobSet":        {spec{kind: kindJobSet, name: "7b-run", workers: 2}, "name-not-dns-label"},
		"a digit first in a Job":           {spec{kind: kindJob, name: "7b-run"}, ""},
		"a Job of 63 letters":              {spec{kind: kindJob, name: n(63)}, ""},
		"an indexed Job of 62":             {spec{kind: kindJob, name: n(62), workers: 2}, "name-too-long"},
		"a Pod of 64":                      {spec{kind: kindPod, name: n(64)}, "name-too-long"},
		"capitals":                         {spec{kind: kindPod, name: "Train"}, "name-not-dns-label"},
		"a prefix gets five letters":       {spec{kind: kindPod, generate: n(58)}, ""},
		"a prefix that leaves no room":     {spec{kind: kindPod, generate: n(59)}, "name-too-long"},
		"a prefix may end with a dash":     {spec{kind: kindJob, generate: "run-"}, ""},
		"a name must not end with a dash":  {spec{kind: kindJob, name: "run-"}, "name-not-dns-label"},
		"an empty name is none of a label": {spec{kind: kindJob}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got reason.Code
			if r := checkName(c.spec); r != nil {
				got = r.Code
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestMemoryIsWrittenInTheClustersUnit(t *testing.T) {
	for _, c := range []struct {
		text string
		unit config.Unit
		want int64
		note bool
		bad  int
	}{
		{"4", config.GiB, 4, false, 0}, {"4Gi", config.GiB, 4, true, 0}, {"4GiB", config.GiB, 4, true, 0}, {"4096Mi", config.GiB, 4, true, 0},
		{"4100Mi", config.GiB, 0, false, 3}, {"512Mi", config.GiB, 0, false, 3}, {"0", config.GiB, 0, false, 3}, {"-4", config.GiB, 0, false, 3},
		{"4Gi", config.MiB, 4096, true, 0}, {"512Mi", config.MiB, 512, true, 0}, {"1Ki", config.MiB, 0, false, 3},
		{"4G", config.GiB, 0, false, 2}, {"4000M", config.GiB, 0, false, 2}, {"four", config.GiB, 0, false, 2}, {"", config.GiB, 0, false, 2},
		{"1.5Gi", config.GiB, 0, false, 3}, {"99999999999999999999", config.GiB, 0, false, 2},
	} {
		got, note, err := parseMemory(c.text, c.unit)
		code := 0
		if err != nil {
			code = cliutil.Report(discard{}, err)
		}
		if got != c.want || (note != "") != c.note || code != c.bad {
			t.Errorf("%s in %s: %d, %q, exit %d", c.text, c.unit, got, note, code)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestDurationsAreRounded(t *testing.T) {
	if got := rounded(1500 * time.Millisecond); *got != 2*time.Second {
		t.Errorf("%s", got)
	}
}

package whypending

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
)

const busy = `
apiVersion: v1
kind: Pod
metadata: {name: draft}
spec:
  schedulerName: lj-runtimekit-scheduler
  runtimeClassName: lj-runtime
  containers:
  - name: app
    resources: {limits: {aliyun.com/gpu: "1"}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: gang}
spec:
  replicatedJobs:
  - name: worker
    replicas: 2
    template: {spec: {parallelism: 3, template: {
      metadata: {labels: {aliyun.com/min-member: "6"}},
      spec: {schedulerName: lj-runtimekit-scheduler, runtimeClassName: lj-runtime, containers: [
        {name: app, resources: {limits: {aliyun.com/gpu-core: "0", aliyun.com/gpu: "1"}}}]}}}}
`

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestManifestThatDoesNotExistYet(t *testing.T) {
	snap := snapshotOf(t, pendingCase{Nodes: []nodeBrief{{Name: "n1", Cards: "2 A10", Hold: map[string]string{"0": "whole"}}}})
	out, exit := command(t, snap, "-f", file(t, busy), "--snapshot", "-", "-o", "json", "--exit-code")
	var l reportList
	if err := json.Unmarshal([]byte(out), &l); err != nil || len(l.Items) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	pod, gang := l.Items[0], l.Items[1]
	if pod.Verdict != reason.OK || pod.Fit != explain.FitNow || pod.FitNodes != 1 {
		t.Errorf("pod: %s %s on %d", pod.Verdict, pod.Fit, pod.FitNodes)
	}
	if gang.Request == nil || gang.Request.Pods != 6 || gang.Request.Gang != 6 {
		t.Errorf("gang: %+v", gang.Request)
	}
	if gang.Verdict != reason.Invalid || gang.Code != "core-zero" || exit != reason.ExitNo {
		t.Errorf("gang with gpu-core 0: %s %s, exit %d", gang.Verdict, gang.Code, exit)
	}
}

func TestKubectlDumpIsEnoughForCards(t *testing.T) {
	c := pendingCase{Nodes: []nodeBrief{{Name: "n1", Cards: "1 A10", Hold: map[string]string{"0": "whole"}}}, Pods: []podBrief{{Name: "p", Ask: "gpu 1"}}}
	var doc map[string]any
	if err := json.Unmarshal([]byte(snapshotOf(t, c)), &doc); err != nil {
		t.Fatal(err)
	}
	var items []any
	for _, i := range doc["items"].([]any) {
		if k := i.(map[string]any)["kind"]; k == "Node" || k == "Pod" {
			items = append(items, i)
		}
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	out, exit := command(t, string(raw), "p", "-n", "default", "--snapshot", "-", "--exit-code")
	if exit != reason.ExitNotYet || !strings.Contains(out, "WAIT gpus-busy") || !strings.Contains(out, "not checked:") {
		t.Errorf("exit %d\n%s", exit, out)
	}
}

func TestJobNamedWithoutItsKind(t *testing.T) {
	p := pictureOf(t, pendingCase{Objects: []map[string]any{{"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"name": "train", "namespace": "default", "uid": "u"}, "spec": map[string]any{}}}})
	_, err := p.Explain(t.Context(), Target{"Pod", "default", "train"})
	var said strings.Builder
	cliutil.Report(&said, err)
	if !strings.Contains(said.String(), "hint: ljctl why-pending job/train\n") {
		t.Error(said.String())
	}
}

func TestMistakesInTheCommandLine(t *testing.T) {
	snap := snapshotOf(t, pendingCase{Nodes: []nodeBrief{{Name: "n1", Cards: "1 A10"}}, Pods: []podBrief{{Name: "trainer", Ask: "gpu 1"}}})
	for _, c := range []struct {
		about string
		args  []string
		exit  int
	}{
		{"a name with -A", []string{"p", "-A", "--snapshot", "-"}, 2},
		{"a kind that is not known", []string{"podd/x", "--snapshot", "-"}, 2},
		{"no such pod", []string{"trainr", "--snapshot", "-"}, 1},
		{"no such job", []string{"job/x", "--snapshot", "-"}, 1},
		{"no such node", []string{"trainer", "--node", "n9", "-n", "default", "--snapshot", "-"}, 1},
		{"both from the input", []string{"-f", "-", "--snapshot", "-"}, 2},
		{"a selector that cannot be read", []string{"-l", "a in (", "--snapshot", "-"}, 2},
		{"no such file", []string{"p", "--snapshot", "/nowhere/x"}, 1},
		{"a manifest without pods", []string{"-f", file(t, "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"), "--snapshot", "-"}, 1},
		{"a broken manifest", []string{"-f", file(t, "a: [\n"), "--snapshot", "-"}, 1},
	} {
		t.Run(c.about, func(t *testing.T) {
			if out, exit := command(t, snap, c.args...); exit != c.exit || out != "" {
				t.Errorf("exit %d, want %d: %s", exit, c.exit, out)
			}
		})
	}
}

func TestHostileTextIsEscaped(t *testing.T) {
	evil := "x\x1b[31m\nVERDICT  OK"
	snap := snapshotOf(t, pendingCase{
		Nodes: []nodeBrief{{Name: "n1", Cards: "1 A10", Labels: map[string]string{"lj_runtimekit_enable": evil}}},
		Pods:  []podBrief{{Name: "p", Ask: "gpu 1", Scheduler: evil}},
		Objects: []map[string]any{{"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "p.1", "namespace": "default"},
			"involvedObject": map[string]any{"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "FailedScheduling", "message": evil}},
	})
	for _, format := range []string{"text", "wide"} {
		out, _ := command(t, snap, "p", "-n", "default", "--snapshot", "-", "-o", format)
		if strings.ContainsRune(out, 0x1b) || strings.Contains(out, "\nVERDICT  OK") {
			t.Errorf("%s:\n%q", format, out)
		}
	}
}

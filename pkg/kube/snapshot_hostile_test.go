package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// secretive puts the word hush wherever a manifest can have a secret.
func secretive() v1.PodSpec {
	handler := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"hush-probe"}}}
	ct := v1.Container{
		Name: "app", Image: "img", Command: []string{"hush-command"}, Args: []string{"--token=hush-args"}, WorkingDir: "/hush-dir",
		Env: []v1.EnvVar{{Name: "HUSH_NAME", Value: "hush-env"}, {Name: "B", ValueFrom: &v1.EnvVarSource{
			SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "hush-ref"}, Key: "hush-key"}}}},
		EnvFrom:       []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "hush-envfrom"}}}},
		LivenessProbe: &v1.Probe{ProbeHandler: handler}, ReadinessProbe: &v1.Probe{ProbeHandler: handler}, StartupProbe: &v1.Probe{ProbeHandler: handler},
		Lifecycle:    &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hush-hook"}}}},
		VolumeMounts: []v1.VolumeMount{{Name: "t", MountPath: "/hush-mount"}},
	}
	return v1.PodSpec{
		InitContainers: []v1.Container{ct}, Containers: []v1.Container{ct},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "d", Command: []string{"hush-debug"}}}},
		ImagePullSecrets:    []v1.LocalObjectReference{{Name: "hush-pull"}},
		HostAliases:         []v1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"hush-host"}}},
		Volumes: []v1.Volume{
			{Name: "t", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "hush-volume"}}},
			{Name: "p", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: "hush-aud", Path: "token"}}}}}},
			{Name: "c", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "kept.example.com", VolumeAttributes: map[string]string{"password": "hush-csi"}, NodePublishSecretRef: &v1.LocalObjectReference{Name: "hush-csiref"}}}},
			{Name: "d", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "kept-claim"}}},
		},
	}
}

func secretiveMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{"env": "kept-label"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "hush-manager"}},
		Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"hush":"applied"}`, "team.example.com/password": "hush-annotation",
			"vault": "hush-plain", "jobset.sigs.k8s.io/kept": "kept-annotation"}}
}

func TestNothingSecretIsWritten(t *testing.T) {
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: "hush-message", Reason: "Error"}}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "kept-pull"}}
	pod := &v1.Pod{ObjectMeta: secretiveMeta("p"), Spec: secretive(), Status: v1.PodStatus{
		ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: waiting, LastTerminationState: ended}}}}
	template := v1.PodTemplateSpec{ObjectMeta: secretiveMeta(""), Spec: secretive()}
	job := &batchv1.Job{ObjectMeta: secretiveMeta("j"), Spec: batchv1.JobSpec{Template: template}}
	cron := &batchv1.CronJob{ObjectMeta: secretiveMeta("c"), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: secretiveMeta(""), Spec: batchv1.JobSpec{Template: template}}}}
	event := &v1.Event{ObjectMeta: secretiveMeta("e"), Reason: "Unhealthy", Message: "probe failed: hush-output"}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		CSI: &v1.CSIPersistentVolumeSource{Driver: "kept.example.com", VolumeAttributes: map[string]string{"k": "hush-attr"}, NodeStageSecretRef: &v1.SecretReference{Name: "hush-stage"}}}}}
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ConfigMap}, Data: map[string]string{ConfigKey: "memoryUnit: GiB", "other": "hush-data"}}
	objects := []runtime.Object{pod, job, cron, event, pv, cm}
	c, _ := fakeClients(objects...)
	collected := collect(t, c, CollectOptions{})

	byHand := &Snapshot{Pods: []*v1.Pod{pod}, Jobs: []*batchv1.Job{job}, CronJobs: []*batchv1.CronJob{cron}, Events: []*v1.Event{event}, PersistentVolumes: []*v1.PersistentVolume{pv}, ConfigMaps: []*v1.ConfigMap{cm}}
	for name, s := range map[string]*Snapshot{"collected": collected, "made by hand": byHand} {
		for _, f := range []Format{JSON, YAML} {
			var buf bytes.Buffer
			if err := s.Write(&buf, f); err != nil {
				t.Fatal(err)
			}
			out := strings.ToLower(buf.String())
			if i := strings.Index(out, "hush"); i >= 0 {
				t.Errorf("%s, %s: a secret got out: …%s…", name, f, out[max(0, i-80):min(len(out), i+40)])
			}
			for _, kept := range []string{"kept-claim", "kept.example.com", "kept-pull", "kept-annotation", "kept-label"} {
				if !strings.Contains(out, kept) {
					t.Errorf("%s, %s: %s is gone", name, f, kept)
				}
			}
		}
	}
	if pod.Spec.Containers[0].Env == nil {
		t.Error("Write changed the caller's pod")
	}
}

func TestBrokenSnapshotsGiveOneSentence(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":                 {"", "the file is empty"},
		"blank":                 {" \n\t ", "the file is empty"},
		"cut off":               {`{"apiVersion":"v1","kind":"List","items":[{"kind":"Pod","apiVer`, "ends in the middle"},
		"cut between":           {`{"kind":"List","items":[`, "ends in the middle"},
		"words":                 {"hello world", "neither a snapshot nor objects"},
		"NUL bytes":             {"a\x00b", "NUL bytes"},
		"web page":              {"<html><body>Sign in</body></html>", "neither"},
		"a list":                {"[1,2]", "neither a snapshot nor objects"},
		"no kind":               {`{"a":1}`, "no kind"},
		"item without kind":     {`{"items":[{"metadata":{"name":"x"}}]}`, "object 1: it has no kind"},
		"item is a number":      {`{"kind":"List","items":[7]}`, "object 1"},
		"wrong type inside":     {`{"kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":3}}]}`, "object 1: Pod"},
		"no name":               {`{"kind":"List","items":[{"apiVersion":"v1","kind":"Pod"}]}`, "Pod without a name"},
		"bad quantity":          {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"cpu":"4x"}}}`, "object 1: Node"},
		"other things only":     {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, "no objects of a cluster"},
		"newer ljctl":           {`{"apiVersion":"ljctl.lj.aliyun.com/v9","kind":"Snapshot","items":[]}`, "another version of ljctl"},
		"garbage after":         {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}} trailing`, "not valid JSON"},
		"missing comma":         {`{"kind":"List" "items":[]}`, "not valid JSON"},
		"bomb":                  {bomb(), "YAML"},
		"broken YAML":           {"a:\n\t- b", "YAML"},
		"unclosed text":         {`{"kind":"List`, "ends in the middle"},
		"gzip that is none":     {"\x1f\x8bxxxxxxxx", "gzip"},
		"an object of 17 MiB":   {`{"kind":"List","items":[{"x":"` + strings.Repeat("y", 17<<20) + `"}]}`, "larger than any"},
		"deeper than any stack": {`{"kind":"List","items":[` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `]}`, "object 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := LoadSnapshot(strings.NewReader(c.text))
			if err == nil {
				t.Fatalf("no error, %d nodes", len(s.Nodes))
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Errorf("got %q, want one sentence with %q", err, c.want)
			}
		})
	}
}

func FuzzLoadSnapshot(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}]}`))
	f.Add([]byte("kind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n"))
	f.Add([]byte(`{"items":[{"\"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := LoadSnapshot(bytes.NewReader(data))
		if (s == nil) == (err == nil) {
			t.Fatal("neither a snapshot nor an error, or both")
		}
		if err == nil {
			if err := s.Write(io.Discard, JSON); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The scanner must cut where the JSON decoder would, at every buffer border.
func TestScannerCutsWhereValuesEnd(t *testing.T) {
	text := `{"a\"]}":[1,{"b":"\\"},"}{"],"c":null} `
	want := strings.TrimSpace(text)
	for size := 16; size < 64; size++ {
		got, err := newScanner(bufio.NewReaderSize(strings.NewReader(text), size)).value()
		if err != nil || string(got) != want {
			t.Fatalf("buffer of %d: %q, %v", size, got, err)
		}
	}
}

func bigDump(b *testing.B, nodes, pods int) []byte {
	var buf bytes.Buffer
	s := &Snapshot{}
	for i := range nodes {
		s.Nodes = append(s.Nodes, gpuNode(fmt.Sprintf("node-%05d", i)))
	}
	for i := range pods {
		s.Pods = append(s.Pods, sharePod(fmt.Sprintf("pod-%05d", i), fmt.Sprintf("node-%05d", i%nodes)))
	}
	if err := s.Write(&buf, JSON); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

func BenchmarkLoadSnapshot(b *testing.B) {
	data := bigDump(b, 5000, 40000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := LoadSnapshot(bytes.NewReader(data))
		if err != nil || len(s.Pods) != 40000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadKubectlDump(b *testing.B) {
	var doc map[string]any
	if err := json.Unmarshal(bigDump(b, 500, 4000), &doc); err != nil {
		b.Fatal(err)
	}
	doc["kind"], doc["apiVersion"] = "List", "v1"
	data, err := json.MarshalIndent(doc, "", "    ")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := LoadSnapshot(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kjson "sigs.k8s.io/json"

	corev1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// pod is a template's spec in flow style.
const pod = `{spec: {containers: [{name: a, image: b}]}}`

func TestWhereKindsKeepTheirPods(t *testing.T) {
	for _, c := range []struct{ api, kind, spec, want string }{
		{"v1", "Pod", `spec: {containers: []}`, ":1"},
		{"v1", "PodTemplate", `template: ` + pod, "template:1"},
		{"v1", "ReplicationController", `spec: {replicas: 3, template: ` + pod + `}`, "spec.template:3"},
		{"apps/v1", "DaemonSet", `spec: {template: ` + pod + `}`, "spec.template:1"},
		{"apps/v1", "Deployment", `spec: {template: ` + pod + `}`, "spec.template:1"},
		{"batch/v1", "Job", `spec: {parallelism: 4, template: ` + pod + `}`, "spec.template:4"},
		{"batch/v1", "CronJob", `spec: {jobTemplate: {spec: {parallelism: 2, template: ` + pod + `}}}`, "spec.jobTemplate.spec.template:2"},
		{"jobset.x-k8s.io/v1alpha2", "JobSet", `spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 4, template: ` + pod + `}}}]}`,
			"spec.replicatedJobs[0].template.spec.template(w):8"},
		{"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", `spec: {replicas: 2, leaderWorkerTemplate: {size: 4, workerTemplate: ` + pod + `}}`,
			"spec.leaderWorkerTemplate.workerTemplate(worker):8"},
		{"ray.io/v1", "RayJob", `spec: {submitterPodTemplate: ` + pod + `, rayClusterSpec: {headGroupSpec: {template: ` + pod + `}, workerGroupSpecs: [{groupName: g, replicas: 2, numOfHosts: 4, template: ` + pod + `}]}}`,
			"spec.submitterPodTemplate(submitter):1 spec.rayClusterSpec.headGroupSpec.template(head):1 spec.rayClusterSpec.workerGroupSpecs[0].template(g):8"},
		{"ray.io/v1", "RayService", `spec: {rayClusterConfig: {headGroupSpec: {template: ` + pod + `}}}`, "spec.rayClusterConfig.headGroupSpec.template(head):1"},
		{"kubeflow.org/v1", "TFJob", `spec: {tfReplicaSpecs: {PS: {replicas: 2, template: ` + pod + `}, Worker: {replicas: 3, template: ` + pod + `}}}`,
			"spec.tfReplicaSpecs.PS.template(PS):2 spec.tfReplicaSpecs.Worker.template(Worker):3"},
		{"kubeflow.org/v1", "XGBoostJob", `spec: {xgbReplicaSpecs: {Master: {template: ` + pod + `}}}`, "spec.xgbReplicaSpecs.Master.template(Master):1"},
		{"kubeflow.org/v2beta1", "MPIJob", `spec: {mpiReplicaSpecs: {Launcher: {template: ` + pod + `}}}`, "spec.mpiReplicaSpecs.Launcher.template(Launcher):1"},
		{"batch.volcano.sh/v1alpha1", "Job", `spec: {tasks: [{name: t, replicas: 5, template: ` + pod + `}]}`, "spec.tasks[0].template(t):5"},
		{"trainer.kubeflow.org/v1alpha1", "TrainJob", `spec: {trainer: {numNodes: 4}}`, "spec.trainer(trainer):4"},
		{"trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", `spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: ` + pod + `}}}]}}}`,
			"spec.template.spec.replicatedJobs[0].template.spec.template(node):1"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			d := Parse(Source{Name: "t", Data: []byte(fmt.Sprintf("apiVersion: %s\nkind: %s\n%s\n", c.api, c.kind, c.spec))})[0]
			if d.Root == nil {
				t.Fatal(d.Problems)
			}
			read := readerOf(gvkOf(d.Root))
			if read == nil {
				t.Fatal("no reader")
			}
			var w rules.Workload
			read(d.Root, "", &w)
			var got []string
			for _, x := range w.Templates {
				s := x.Path
				if x.Role != "" {
					s += "(" + x.Role + ")"
				}
				got = append(got, fmt.Sprintf("%s:%d", s, x.Pods))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnknownAndPodlessKinds(t *testing.T) {
	for doc, want := range map[string]reason.Verdict{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n":                       reason.OK,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 1}\n":                       reason.Invalid,
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n": reason.OK,
		"apiVersion: example.org/v1\nkind: Pod\nmetadata: {name: a}\n":                               reason.Unknown,
		"apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n":                                          reason.Unknown,
	} {
		if got := judgeAll([]byte(doc))[0]; got.Verdict != want {
			t.Errorf("%s: %s %+v, want %s", doc, got.Verdict, got.Findings, want)
		}
	}
}

func TestKindInTheWrongGroup(t *testing.T) {
	for doc, want := range map[string]string{
		"v1 Deployment":                 "write apiVersion: apps/v1, kind: Deployment",
		"v1 pod":                        "write apiVersion: v1, kind: Pod",
		"batch/v2 Job":                  "write apiVersion: batch/v1, kind: Job",
		"batch/v1 JobSet":               "write apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet",
		"batch/v1beta1 CronJob":         "write apiVersion: batch/v1, kind: CronJob",
		"extensions/v1beta1 Deployment": "write apiVersion: apps/v1, kind: Deployment",
		"apps/v1 Deployment":            "", "batch/v1 Job": "", "batch.volcano.sh/v1alpha1 Job": "", "v1 Podd": "", "example.org/v1 Pod": "",
		"v1 Service": "", "networking.k8s.io/v1 Ingress": "",
	} {
		api, kind, _ := strings.Cut(doc, " ")
		o := judgeAll([]byte("apiVersion: " + api + "\nkind: " + kind + "\nmetadata: {name: a}\n"))[0]
		got := ""
		if f := find(o.Findings, "api-version-wrong"); f != nil {
			got = f.Fix()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
}

// The amounts of a TrainJob are judged, and what stands elsewhere is said to
// be unknown.
func TestTrainJob(t *testing.T) {
	doc := "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\nspec:\n  runtimeRef: {name: torch}\n  trainer: {numNodes: 4, resourcesPerNode: {limits: {%s}}}\n"
	for limits, want := range map[string]reason.Verdict{
		`nvidia.com/gpu: "8"`:      reason.Unknown,
		`aliyun.com/gpu-slice: 5`:  reason.Invalid,
		`cpu: 5`:                   reason.OK,
		`aliyun.com/gpu-mem: "4"`:  reason.Invalid,
		`aliyun.com/gpu-core: 500`: reason.Invalid,
	} {
		if o := judgeAll([]byte(fmt.Sprintf(doc, limits)))[0]; o.Verdict != want {
			t.Errorf("%s: %s %+v, want %s", limits, o.Verdict, o.Findings, want)
		}
	}
}

// The field-by-field comparison must refuse what the API server's strict
// decoder refuses, and nothing else.
func TestTypesAgreeWithTheStrictDecoder(t *testing.T) {
	for _, doc := range []string{
		`{}`, `{"metadata": null}`, `{"spec": []}`, `{"spec": {"hostNetwork": "true"}}`, `{"spec": {"hostNetwork": true}}`,
		`{"spec": {"HostNetwork": true}}`, `{"metadata": {"labels": {"a": 1}}}`, `{"metadata": {"labels": {"a": "1"}}}`,
		`{"spec": {"containers": {"name": "a"}}}`, `{"spec": {"containers": [{"name": "a", "hostNetwork": true}]}}`,
		`{"spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}}`, `{"spec": {"containers": [{"ports": [{"containerPort": 80.5}]}]}}`,
		`{"spec": {"containers": [{"ports": [{"containerPort": 99999999999}]}]}}`, `{"spec": {"priority": -1}}`,
		`{"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": "http"}}}]}}`, `{"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 80}}}]}}`,
		`{"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": true}}}]}}`,
		`{"spec": {"containers": [{"resources": {"limits": {"cpu": "4GiB"}}}]}}`, `{"spec": {"containers": [{"resources": {"limits": {"cpu": 4}}}]}}`,
		`{"spec": {"containers": [{"resources": {"limits": {"cpu": [1]}}}]}}`, `{"metadata": {"creationTimestamp": "2026-01-31T08:00:00Z"}}`,
		`{"metadata": {"creationTimestamp": "yesterday"}}`, `{"metadata": {"creationTimestamp": null}}`, `{"metadata": {"managedFields": [{"fieldsV1": {"f:a": {}}}]}}`,
		`{"spec": {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}}`, `{"spec": {"tolerations": [{"tolerationSeconds": 30}]}}`,
		`{"spec": {"containers": [{"env": [{"name": "a", "value": 1}]}]}}`, `{"spec": {"overhead": {"cpu": "1"}}}`, `{"spec": {"nodeSelector": {"a": true}}}`,
	} {
		n, err := parseJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		var c typeCheck
		c.check(n, templateType, "")
		strict, hard := kjson.UnmarshalStrict([]byte(doc), new(corev1.PodTemplateSpec))
		if refused := len(strict) > 0 || hard != nil; refused != (len(c.found) > 0) {
			t.Errorf("%s: strict decoder %v %v, we %+v", doc, strict, hard, c.found)
		}
	}
	doc := `{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [{"name": "a", "replica": 2, "template": {"spec": {"parallelism": 2}}}]}}`
	strict, hard := kjson.UnmarshalStrict([]byte(doc), new(jobset.JobSet))
	o := judgeAll([]byte(doc))[0]
	f := find(o.Findings, "unknown-field")
	if len(strict) != 1 || hard != nil || f == nil || f.Path != "spec.replicatedJobs[0].replica" || f.Fix() != "did you mean replicas?" {
		t.Errorf("strict %v %v, we %+v", strict, hard, o.Findings)
	}
}

// Values are those of YAML 1.1, and what is said about them points to the
// text as it stands in the file.
func TestValuesAndPlaces(t *testing.T) {
	doc := "# comment\n---\na: 010\nb: yes\nc: \"010\"\nd:\n  - x: 1_000\n    y: ~\nbase: &b {k: 1e1}\ne:\n  <<: *b\n  z: 0x1F\n"
	d := Parse(Source{Name: "t", Data: []byte(doc)})[0]
	if d.Root == nil {
		t.Fatal(d.Problems)
	}
	for path, want := range map[string]string{
		"a": "8 010 3:4", "b": "true yes 4:4", "c": "010 010 5:4", "d": "  6:1", "d[0].x": "1000 1_000 7:8", "base.k": "10 1e1 9:14",
		"e.k": "10 1e1 9:14", "e.z": "31 0x1F 12:6",
	} {
		p, ok := d.places[path]
		if !ok {
			t.Errorf("%s is not there", path)
			continue
		}
		if got := fmt.Sprintf("%s %s %d:%d", p.node.Text, p.node.Raw, p.line, p.col); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if at := d.places.find("d[0].x.missing[3].more"); at != (position{7, 8}) {
		t.Errorf("a path that is not there: %v", at)
	}
}

func TestSplit(t *testing.T) {
	for what, c := range map[string]struct {
		data string
		want string
	}{
		"two documents":                   {"a: 1\n---\nb: 2\n", "1:a: 1| 3:b: 2|"},
		"a comment behind the marker":     {"a: 1\n--- # next\nb: 2\n", "1:a: 1| 3:b: 2|"},
		"content behind the marker":       {"--- {a: 1}\n--- {b: 2}\n", "1:--- {a: 1}| 2:--- {b: 2}|"},
		"empty documents are passed over": {"---\n---\n# c\n---\na: 1\n---\n", "5:a: 1|"},
		"an end marker":                   {"a: 1\n...\n---\nb: 2\n", "1:a: 1| 4:b: 2|"},
		"a marker inside a text":          {"a: |\n  ---\n  x\n", "1:a: ||  ---|  x|"},
		"windows line ends":               {"a: 1\r\n---\r\nb: 2\r\n", "1:a: 1| 3:b: 2|"},
		"a directive":                     {"%YAML 1.1\n---\na: 1\n", "3:a: 1|"},
		"JSON":                            {"{\"a\": 1}\n", "1:{\"a\": 1}"},
		"a stream of JSON":                {"{\"a\": 1}\n{\"b\": 2}\n", "1:{\"a\": 1} 1:|{\"b\": 2}"},
		"JSON with markers":               {"{\"a\": 1}\n---\n{\"b\": 2}\n", "1:{\"a\": 1} 2:|{\"b\": 2}"},
		"JSON, then YAML":                 {"{\"a\": 1}\n---\nb: 2\n", "1:{\"a\": 1} 2:|b: 2|"},
		"flow YAML that is no JSON":       {"{a: 1}\n---\n{b: 2}\n", "1:{a: 1}| 3:{b: 2}|"},
	} {
		t.Run(what, func(t *testing.T) {
			var got []string
			for _, c := range split([]byte(c.data)) {
				got = append(got, fmt.Sprintf("%d:%s", c.line, strings.NewReplacer("\r\n", "|", "\n", "|").Replace(string(c.text))))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

package kube

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
)

var moment = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func gpuNode(name string) *v1.Node {
	inv := fmt.Sprintf(`{"v":1,"unit":"GiB","cards":[{"uuid":"GPU-%s-0","index":0,"model":"NVIDIA H800","vendor":"nvidia","memMiB":81559}]}`, name)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{EnableLabel: "true"}, Annotations: map[string]string{InventoryAnnotation: inv}},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{"aliyun.com/gpu": resource.MustParse("1"), "aliyun.com/gpu-core": resource.MustParse("100"), "aliyun.com/gpu-memory": resource.MustParse("79")}},
	}
}

func sharePod(name, node string) *v1.Pod {
	uid := "uid-" + name
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(uid), Annotations: map[string]string{
			AllocationAnnotation: fmt.Sprintf(`{"v":1,"uid":%q,"node":%q,"containers":{"app":[{"card":"GPU-%s-0","core":50,"memMiB":4096}]}}`, uid, node, node)}},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "app", Image: "img", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{"aliyun.com/gpu-core": resource.MustParse("50"), "aliyun.com/gpu-memory": resource.MustParse("4")}}}}},
	}
	return p
}

func fakeClients(objects ...runtime.Object) (Clients, *fake.Clientset) {
	typed := fake.NewClientset(objects...)
	js := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
		"metadata": map[string]any{"namespace": "team", "name": "gang", "labels": map[string]any{"env": "prod"}},
		"spec": map[string]any{"replicatedJobs": []any{map[string]any{"name": "worker", "template": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "env": []any{map[string]any{"name": "K", "value": "hush-jobset"}}}}}}}}}}}
	hn := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
		"metadata": map[string]any{"name": "rack-1"}, "spec": map[string]any{"tier": int64(1), "members": []any{map[string]any{"type": "Node",
			"selector": map[string]any{"exactMatch": map[string]any{"name": "n1"}}}}}}}
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{JobSets: "JobSetList", HyperNodes: "HyperNodeList"}, js, hn)
	return Clients{Typed: typed, Dynamic: dyn}, typed
}

func collect(t *testing.T, c Clients, o CollectOptions) *Snapshot {
	t.Helper()
	o.Now = moment
	s, err := Collect(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var sameSnapshot = cmp.Options{cmpopts.IgnoreUnexported(Snapshot{}), cmpopts.EquateEmpty()}

func TestSnapshotSurvivesTheFile(t *testing.T) {
	c, _ := fakeClients(gpuNode("n2"), gpuNode("n1"), sharePod("b", "n1"), sharePod("a", "n1"),
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ConfigMap}, Data: map[string]string{ConfigKey: "memoryUnit: MiB\n"}})
	want := collect(t, c, CollectOptions{})
	for _, f := range []Format{JSON, YAML} {
		var buf, again bytes.Buffer
		if err := want.Write(&buf, f); err != nil {
			t.Fatal(err)
		}
		got, err := LoadSnapshot(bytes.NewReader(buf.Bytes()))
		if err != nil {
			t.Fatalf("%s: %v\n%s", f, err, buf.String())
		}
		if d := cmp.Diff(want, got, sameSnapshot); d != "" {
			t.Errorf("%s: %s", f, d)
		}
		if err := got.Write(&again, f); err != nil || !bytes.Equal(buf.Bytes(), again.Bytes()) {
			t.Errorf("%s: written again it differs (%v)", f, err)
		}
		if cfg, o := got.Config(); cfg.Unit != config.MiB || o.Kind != FromSnapshot {
			t.Errorf("%s: config %v from %v", f, cfg.Unit, o)
		}
		var zipped bytes.Buffer
		zw := gzip.NewWriter(&zipped)
		_, _ = zw.Write(buf.Bytes())
		_ = zw.Close()
		if g, err := LoadSnapshot(&zipped); err != nil || len(g.Pods) != 2 {
			t.Errorf("%s: gzipped: %v", f, err)
		}
	}
}

func TestClusterHasTheHolds(t *testing.T) {
	c, _ := fakeClients(gpuNode("n2"), gpuNode("n1"), sharePod("b", "n1"), sharePod("a", "n1"), sharePod("lost", "gone"))
	got := collect(t, c, CollectOptions{}).Cluster(config.Default())
	if len(got) != 2 || got[0].Name != "n1" || got[1].Name != "n2" {
		t.Fatalf("nodes: %v", got)
	}
	want := []cluster.Hold{
		{UID: "uid-a", Pod: "team/a", Cards: []cluster.CardUse{{Card: "GPU-n1-0", Core: 50, MemMiB: 4096, Shares: 1}}},
		{UID: "uid-b", Pod: "team/b", Cards: []cluster.CardUse{{Card: "GPU-n1-0", Core: 50, MemMiB: 4096, Shares: 1}}},
	}
	if d := cmp.Diff(want, got[0].Holds); d != "" {
		t.Error(d)
	}
	if got[0].HyperNode != "rack-1" || got[1].HyperNode != "" {
		t.Errorf("n1 is in HyperNode %q, n2 in %q", got[0].HyperNode, got[1].HyperNode)
	}
	if len(got[1].Holds) != 0 {
		t.Errorf("n2 has holds: %v", got[1].Holds)
	}
}

// kubectl prints lists of mixed kinds, with everything in them.
func TestLoadsWhatKubectlPrints(t *testing.T) {
	p := sharePod("a", "n1")
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "TOKEN", Value: "hush"}}
	items := []any{withKind(p, "v1", "Pod"), withKind(gpuNode("n1"), "v1", "Node"),
		map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}}}
	listed := map[string]any{"apiVersion": "v1", "items": items, "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}
	asJSON, err := json.MarshalIndent(listed, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.JSONToYAML(asJSON)
	if err != nil {
		t.Fatal(err)
	}
	raw := `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"n1"}}]}
{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a","namespace":"team"}}]}`
	docs, one := "", ""
	for _, it := range items {
		b, err := yaml.Marshal(it)
		if err != nil {
			t.Fatal(err)
		}
		docs += "---\n" + string(b)
		j, _ := json.Marshal(it)
		one += string(j) + "\n"
	}
	for name, text := range map[string]string{"json": string(asJSON), "yaml": string(asYAML), "raw lists": raw, "documents": docs,
		"objects in a row": one, "byte order mark": "\xef\xbb\xbf" + one, "twice": one + one} {
		t.Run(name, func(t *testing.T) {
			s, err := LoadSnapshot(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Nodes) != 1 || len(s.Pods) != 1 || s.Pods[0].Name != "a" {
				t.Fatalf("%d nodes, %d pods", len(s.Nodes), len(s.Pods))
			}
			if len(s.Pods[0].Spec.Containers) > 0 && s.Pods[0].Spec.Containers[0].Env != nil {
				t.Error("the environment is still there")
			}
			if s.Lacks("pods") != nil || s.Lacks("persistentvolumes") == nil {
				t.Errorf("missing: %v", s.Missing)
			}
			if _, o := s.Config(); o.Kind != FromDefault || o.Absent {
				t.Errorf("config from %v", o)
			}
		})
	}
}

func withKind(o runtime.Object, api, kind string) any {
	b, _ := json.Marshal(o)
	m := map[string]any{}
	_ = json.Unmarshal(b, &m)
	m["apiVersion"], m["kind"] = api, kind
	return m
}

func TestForbiddenListsAreMissing(t *testing.T) {
	c, typed := fakeClients(gpuNode("n1"), sharePod("a", "n1"))
	typed.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.GetResource()
		if r.Resource == "nodes" || r.Resource == "pods" && a.GetNamespace() == "" {
			return true, nil, apierrors.NewForbidden(r.GroupResource(), "", nil)
		}
		if r.Resource == "cronjobs" {
			return true, nil, apierrors.NewNotFound(r.GroupResource(), "")
		}
		if r.Resource == "events" {
			return true, nil, apierrors.NewInternalError(fmt.Errorf("etcd is away"))
		}
		return false, nil, nil
	})
	s := collect(t, c, CollectOptions{Fallback: "team"})
	want := []Missing{
		{Resource: "events", Why: "the API server did not give it: Internal error occurred: etcd is away"},
		{Resource: "nodes", Why: "forbidden: needs the verb list on nodes at cluster scope"},
		{Resource: "pods", Why: "forbidden: needs the verb list on pods at cluster scope; only namespace team was read", Partial: "team"},
	}
	if d := cmp.Diff(want, s.Missing); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"cronjobs.batch"}, s.Absent); d != "" {
		t.Error(d)
	}
	if len(s.Pods) != 1 {
		t.Errorf("%d pods", len(s.Pods))
	}
}

func TestCollectOnlySomeLists(t *testing.T) {
	c, typed := fakeClients(gpuNode("n1"), sharePod("a", "n1"))
	s := collect(t, c, CollectOptions{Only: []string{"nodes"}})
	if len(s.Nodes) != 1 || len(s.Pods) != 0 || s.Lacks("pods") == nil {
		t.Errorf("%d nodes, %d pods, missing %v", len(s.Nodes), len(s.Pods), s.Missing)
	}
	for _, a := range typed.Actions() {
		if a.GetVerb() == "list" && a.GetResource().Resource != "nodes" {
			t.Errorf("asked for %s", a.GetResource().Resource)
		}
	}
}

func TestCollectFailsWithoutNodesAndPods(t *testing.T) {
	for _, err := range []error{apierrors.NewUnauthorized("no"), fmt.Errorf("dial tcp: connection refused")} {
		c, typed := fakeClients()
		typed.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		if _, got := Collect(t.Context(), c, CollectOptions{}); got == nil {
			t.Errorf("no error for %v", err)
		}
	}
}

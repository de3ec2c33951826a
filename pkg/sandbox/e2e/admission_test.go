package e2e

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lj.aliyun.com/kit/pkg/kube"
)

// refusedWith tells whether an admission policy said no with these words.
func refusedWith(err error, words string) bool {
	return (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) && strings.Contains(err.Error(), words)
}

// policies waits until the API server has taken up the admission policies:
// that is a moment after they were created.
func policies(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "the policies in force", func() (bool, string) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe", Annotations: map[string]string{kube.AllocationAnnotation: "{}"}}, Spec: cardPod()}
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return refusedWith(err, "records of the scheduler"), fmt.Sprint(err)
	})
}

// The administrator is refused like anybody.
func TestNobodyWritesRecordsOfCardsOnPods(t *testing.T) {
	ns := namespace(t)
	policies(t, ns)
	pods := client.CoreV1().Pods(ns)
	wishes := map[string]string{"lj.aliyun.com/node-policy": "spread", "lj.aliyun.com/card-policy": "spread", "sandbox.lj.aliyun.com/run-for": "1h"}
	with := func(name string, annotations map[string]string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: cardPod()}
	}
	if _, err := pods.Create(t.Context(), with("other", map[string]string{"lj.aliyun.com/anything": "x"}), metav1.CreateOptions{}); !refusedWith(err, "lj.aliyun.com/anything") {
		t.Errorf("another record on create: %v", err)
	}
	pod, err := pods.Create(t.Context(), with("p", wishes), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("wishes of the user: %v", err)
	}
	forged := fmt.Sprintf(`{"metadata":{"annotations":{%q:"{}"}}}`, kube.AllocationAnnotation)
	removed := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, kube.AllocationAnnotation)
	patch := func(text string, sub ...string) error {
		_, err := pods.Patch(t.Context(), "p", types.MergePatchType, []byte(text), metav1.PatchOptions{}, sub...)
		return err
	}
	if err := patch(forged); !refusedWith(err, kube.AllocationAnnotation) {
		t.Errorf("a record on a pod that waits: %v", err)
	}
	if err := bindAs(t, client, pod, "h800", wholeCard(t, pod, "h800", 5)); !refusedWith(err, "in a Binding are records of the scheduler") {
		t.Errorf("a Binding with cards by somebody else: %v", err)
	}
	old := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: ns, Annotations: map[string]string{kube.AllocationAnnotation: "{}"}},
		Target: v1.ObjectReference{Kind: "Node", Name: "h800"}}
	err = client.CoreV1().RESTClient().Post().Namespace(ns).Resource("bindings").Body(old).Do(t.Context()).Error()
	if !refusedWith(err, "in a Binding are records of the scheduler") {
		t.Errorf("the same by the old path: %v", err)
	}
	bind(t, pod, "h800", wholeCard(t, pod, "h800", 5))
	for what, text := range map[string]string{"changed": forged, "removed": removed} {
		for _, sub := range [][]string{nil, {"status"}} {
			if err := patch(text, sub...); !refusedWith(err, kube.AllocationAnnotation) {
				t.Errorf("a record that is %s by way of %v: %v", what, sub, err)
			}
		}
	}
	for what, text := range map[string]string{
		"a label": `{"metadata":{"labels":{"a":"b"}}}`, "another annotation": `{"metadata":{"annotations":{"a":"b"}}}`,
		"a wish": `{"metadata":{"annotations":{"lj.aliyun.com/card-policy":null}}}`,
	} {
		if err := patch(text); err != nil {
			t.Errorf("%s of a pod with a record: %v", what, err)
		}
	}
	eventually(t, "the pod running: its kubelet may write the status", func() (bool, string) {
		p, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
		return err == nil && p.Status.Phase == v1.PodRunning, fmt.Sprint(err)
	})
}

func TestPodsWithCardsNeedTheRuntimeClass(t *testing.T) {
	ns := namespace(t)
	policies(t, ns)
	create := func(change func(*v1.PodSpec)) error {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: cardPod()}
		change(&p.Spec)
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	none := func(s *v1.PodSpec) { s.RuntimeClassName = nil }
	for what, change := range map[string]func(*v1.PodSpec){
		"no class": none,
		"cards of an init container": func(s *v1.PodSpec) {
			none(s)
			s.InitContainers = []v1.Container{{Name: "init", Image: "none", Resources: s.Containers[0].Resources}}
			s.Containers[0].Resources = v1.ResourceRequirements{}
		},
	} {
		if err := create(change); !refusedWith(err, "runtimeClassName: lj-runtime") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func(*v1.PodSpec){
		"the right class":       func(*v1.PodSpec) {},
		"of another scheduler":  func(s *v1.PodSpec) { none(s); s.SchedulerName = "default-scheduler" },
		"without cards":         func(s *v1.PodSpec) { none(s); s.Containers[0].Resources = v1.ResourceRequirements{} },
		"an amount of nothing":  func(s *v1.PodSpec) { none(s); s.Containers[0].Resources.Limits = zero("aliyun.com/gpu-core") },
		"cards of other makers": func(s *v1.PodSpec) { none(s); s.Containers[0].Resources.Limits = amount("amd.com/gpu", "1") },
	} {
		if err := create(change); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnAgentWritesItsOwnNodeOnly(t *testing.T) {
	policies(t, namespace(t))
	as := func(node string) kubernetes.Interface {
		cfg := rest.CopyConfig(cluster.AdminConfig())
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + kube.Namespace + ":" + kube.AgentApp, Groups: []string{"system:masters"}}
		if node != "" {
			cfg.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return kubernetes.NewForConfigOrDie(cfg)
	}
	write := func(agentOf, node string, sub ...string) error {
		_, err := as(agentOf).CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, sub...)
		return err
	}
	for _, sub := range [][]string{nil, {"status"}} {
		if err := write("h800", "h800", sub...); err != nil {
			t.Errorf("its own node %v: %v", sub, err)
		}
		if err := write("h800", "h20", sub...); !refusedWith(err, "runs on and to no other") {
			t.Errorf("another node %v: %v", sub, err)
		}
	}
	if err := write("", "h800"); !refusedWith(err, "runs on and to no other") {
		t.Errorf("a token that does not say where: %v", err)
	}
}

func amount(name v1.ResourceName, n string) v1.ResourceList {
	return v1.ResourceList{name: resource.MustParse(n)}
}

func zero(name v1.ResourceName) v1.ResourceList { return amount(name, "0") }

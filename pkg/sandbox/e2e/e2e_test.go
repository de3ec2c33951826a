package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox"
	"lj.aliyun.com/kit/pkg/sandbox/simnode"
)

// cluster is shared by the tests of this package.
var (
	cluster *sandbox.Cluster
	client  kubernetes.Interface
	jobsets jobsetclient.Interface
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(programMain())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	var err error
	cluster, err = sandbox.Start(ctx, sandbox.Options{NoScheduler: true, Timing: simnode.Timing{
		Create: 10 * time.Millisecond, Init: 10 * time.Millisecond, BackOff: 100 * time.Millisecond, MaxBackOff: time.Second}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the sandbox:", err)
		return 1
	}
	defer cluster.Stop()
	fmt.Fprintf(os.Stderr, "sandbox ready after %.1f s\n", time.Since(start).Seconds())
	client = kubernetes.NewForConfigOrDie(cluster.AdminConfig())
	jobsets = jobsetclient.NewForConfigOrDie(cluster.AdminConfig())
	return m.Run()
}

// namespace makes one for the test, with its service account.
func namespace(t *testing.T) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
	})
	eventually(t, "the namespace's service account", func() (bool, string) {
		_, err := client.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return ns.Name
}

// eventually waits for a condition and says what it saw last when it never
// comes.
func eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	var last string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		done, seen := ok()
		if done {
			return
		}
		last = seen
	}
	t.Fatalf("%s: not in 30 s; last seen: %s", what, last)
}

// cardPod asks our scheduler for one whole NVIDIA card.
func cardPod() v1.PodSpec {
	class := kube.RuntimeClass
	return v1.PodSpec{
		SchedulerName: kube.SchedulerName, RuntimeClassName: &class, RestartPolicy: v1.RestartPolicyNever,
		Containers: []v1.Container{{Name: "app", Image: "none", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}},
	}
}

// wholeCard is an allocation of the node's n-th card to the container app.
func wholeCard(t *testing.T, pod *v1.Pod, node string, n int) string {
	t.Helper()
	return wholeCardIn(t, client, pod, node, n)
}

func wholeCardIn(t *testing.T, c kubernetes.Interface, pod *v1.Pod, node string, n int) string {
	t.Helper()
	obj, err := c.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inv, err := device.DecodeInventory(obj.Annotations[kube.InventoryAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	text, err := device.EncodeAllocation(&device.Allocation{UID: string(pod.UID), Node: node,
		Containers: map[string][]device.Grant{"app": {{Card: inv.Cards[n].UUID, Whole: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// bind does what the scheduler does, under its account: one Binding with the
// allocation in it.
func bind(t *testing.T, pod *v1.Pod, node, allocation string) {
	t.Helper()
	if err := bindAs(t, as(t, cluster.SchedulerKubeconfig()), pod, node, allocation); err != nil {
		t.Fatal(err)
	}
}

// as is a client of the user of a kubeconfig.
func as(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(cfg)
}

func bindAs(t *testing.T, c kubernetes.Interface, pod *v1.Pod, node, allocation string) error {
	t.Helper()
	b := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	if allocation != "" {
		b.Annotations = map[string]string{kube.AllocationAnnotation: allocation}
	}
	return c.CoreV1().Pods(pod.Namespace).Bind(t.Context(), b, metav1.CreateOptions{})
}

// onlyPod waits for the one pod with this label.
func onlyPod(t *testing.T, ns, selector string) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	eventually(t, "one pod "+selector, func() (bool, string) {
		l, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil || len(l.Items) != 1 {
			return false, fmt.Sprint(err)
		}
		pod = &l.Items[0]
		return true, ""
	})
	return pod
}

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox/simnode"
)

func TestNodesAreReadyAndOfferWhatTheirInventorySays(t *testing.T) {
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(nodes.Items), len(cluster.Fleet().Nodes); got != want {
		t.Fatalf("%d nodes, want %d", got, want)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
				t.Errorf("%s is not ready: %s", n.Name, c.Message)
			}
		}
		inv, err := device.DecodeInventory(n.Annotations[kube.InventoryAnnotation])
		if err != nil {
			t.Errorf("%s: %v", n.Name, err)
			continue
		}
		got := map[string]int64{}
		for name, q := range n.Status.Allocatable {
			if cluster.Fleet().Config.IsResource(string(name)) {
				got[string(name)] = q.Value()
			}
		}
		if diff := cmp.Diff(inv.Capacity(cluster.Fleet().Config), got); diff != "" {
			t.Errorf("%s: allocatable differs from the inventory's capacity (-want +got):\n%s", n.Name, diff)
		}
	}
}

func TestJobRunsToItsEndOnTheCardsOfItsBinding(t *testing.T) {
	ns := namespace(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: batchv1.JobSpec{Template: v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{simnode.RunForAnnotation: "100ms"}}, Spec: cardPod()}}}
	if _, err := client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := onlyPod(t, ns, "job-name=one")
	want := wholeCard(t, pod, "h800", 3)
	bind(t, pod, "h800", want)
	eventually(t, "the job's completion", func() (bool, string) {
		j, err := client.BatchV1().Jobs(ns).Get(t.Context(), "one", metav1.GetOptions{})
		return err == nil && j.Status.Succeeded == 1 && j.Status.CompletionTime != nil, fmt.Sprintf("%+v", j.Status)
	})
	done := onlyPod(t, ns, "job-name=one")
	if got := done.Annotations[kube.AllocationAnnotation]; got != want {
		t.Errorf("allocation on the pod: %q, want that of the binding %q", got, want)
	}
	if done.Spec.NodeName != "h800" || done.Status.Phase != v1.PodSucceeded || done.Status.PodIP == "" {
		t.Errorf("node %q, phase %s, address %q", done.Spec.NodeName, done.Status.Phase, done.Status.PodIP)
	}
}

func TestPodBoundWithoutAnAllocationIsRefusedByTheRuntime(t *testing.T) {
	ns := namespace(t)
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Spec: cardPod()}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bind(t, pod, "h800", "")
	eventually(t, "the refusal", func() (bool, string) {
		p, err := client.CoreV1().Pods(ns).Get(t.Context(), "bare", metav1.GetOptions{})
		if err != nil || len(p.Status.ContainerStatuses) == 0 {
			return false, fmt.Sprint(err)
		}
		end := p.Status.ContainerStatuses[0].State.Terminated
		return p.Status.Phase == v1.PodFailed && end != nil && end.ExitCode == 128 && strings.Contains(end.Message, "has no allocation"), fmt.Sprintf("%+v", p.Status)
	})
}

func TestDeletedPodIsGoneAndItsCardFree(t *testing.T) {
	ns := namespace(t)
	for round := range 2 {
		name := fmt.Sprintf("p%d", round)
		pod, err := client.CoreV1().Pods(ns).Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{simnode.StopAfterAnnotation: "10ms"}}, Spec: cardPod()}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bind(t, pod, "h20", wholeCard(t, pod, "h20", 0))
		eventually(t, "the pod running", func() (bool, string) {
			p, err := client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && p.Status.Phase == v1.PodRunning, fmt.Sprintf("%+v", p.Status)
		})
		if err := client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod gone", func() (bool, string) {
			_, err := client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
	}
}

// gang is the JobSet of the users' guide, with nothing but what it writes.
func gang(name string, workers int32) *jobset.JobSet {
	return &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: jobset.JobSetSpec{ReplicatedJobs: []jobset.ReplicatedJob{{
		Name: "worker",
		Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: &workers, Completions: &workers, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"aliyun.com/min-member": fmt.Sprint(workers)},
				Annotations: map[string]string{simnode.RunForAnnotation: "50ms"}},
			Spec: cardPod(),
		}}},
	}}}}
}

func TestJobSetIsDefaultedAndRunsToItsEnd(t *testing.T) {
	ns := namespace(t)
	js, err := jobsets.JobsetV1alpha2().JobSets(ns).Create(t.Context(), gang("train", 7), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m := js.Spec.ReplicatedJobs[0].Template.Spec.CompletionMode; m == nil || *m != batchv1.IndexedCompletion {
		t.Errorf("completion mode %v, want Indexed", m)
	}
	if n := js.Spec.Network; n == nil || n.EnableDNSHostnames == nil || !*n.EnableDNSHostnames {
		t.Errorf("network %+v, want host names on", n)
	}
	var pods []v1.Pod
	eventually(t, "seven pods", func() (bool, string) {
		l, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: jobset.JobSetNameKey + "=train"})
		if err != nil {
			return false, err.Error()
		}
		pods = l.Items
		return len(pods) == 7, fmt.Sprint(len(pods))
	})
	for i := range pods {
		bind(t, &pods[i], "a100-40", wholeCard(t, &pods[i], "a100-40", i))
	}
	eventually(t, "the JobSet's completion", func() (bool, string) {
		js, err := jobsets.JobsetV1alpha2().JobSets(ns).Get(t.Context(), "train", metav1.GetOptions{})
		return err == nil && js.Status.TerminalState == string(jobset.JobSetCompleted), fmt.Sprintf("%+v", js.Status)
	})
}

func TestBrokenJobSetIsRefused(t *testing.T) {
	ns := namespace(t)
	js := gang("broken", 2)
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"nobody"}}
	_, err := jobsets.JobsetV1alpha2().JobSets(ns).Create(t.Context(), js, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "is no replicated job") {
		t.Fatalf("got %v, want a refusal that names the job", err)
	}
}

func TestSchedulerUserHasItsRightsAndNoMore(t *testing.T) {
	cfg, err := clientcmd.BuildConfigFromFlags("", cluster.SchedulerKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c := kubernetes.NewForConfigOrDie(cfg)
	if _, err := c.CoreV1().ConfigMaps(kube.Namespace).Get(t.Context(), kube.ConfigMap, metav1.GetOptions{}); err != nil {
		t.Errorf("reading the settings: %v", err)
	}
	if _, err := c.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("listing jobs: %v", err)
	}
	if _, err := c.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v, want forbidden", err)
	}
	err = c.CoreV1().Nodes().Delete(context.Background(), "h800", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("deleting a node: %v, want forbidden", err)
	}
	if info, err := os.Stat(cluster.SchedulerKubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its kubeconfig: %v %v, want mode 0600", info.Mode(), err)
	}
}

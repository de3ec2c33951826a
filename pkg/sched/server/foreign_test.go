package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	testclock "k8s.io/utils/clock/testing"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/metrics"
)

func TestForeignPodsAreReportedOnceByTheLeader(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	_ = nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{kube.EnableLabel: "true"}}})
	add := func(name string) {
		_ = pods.Add(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)},
			Spec: v1.PodSpec{NodeName: "n", SchedulerName: "other", Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{config.NvidiaGPU: resource.MustParse("1")}}}}}})
	}
	heard, leads := &heard{}, false
	f := &foreigners{recorder: heard, leading: func() bool { return leads },
		fleet: metrics.NewFleet(corelisters.NewNodeLister(nodes), corelisters.NewPodLister(pods), config.Default, clock)}
	round := func() int {
		clock.Step(foreignEvery)
		f.round(klog.Background())
		return len(heard.notes)
	}
	for i := range foreignBurst + 1 {
		add(fmt.Sprintf("p%02d", i))
	}
	if n := round(); n != 0 {
		t.Errorf("%d events by a copy that does not lead", n)
	}
	leads = true
	for _, want := range []int{foreignBurst, foreignBurst + 1, foreignBurst + 1} {
		if n := round(); n != want {
			t.Errorf("%d events, want %d", n, want)
		}
	}
	if s := heard.notes[0]; !strings.Contains(s, "ForeignGPUPod: the pod has no allocation") || !strings.Contains(s, "schedulerName: "+kube.SchedulerName) {
		t.Error(s)
	}
}

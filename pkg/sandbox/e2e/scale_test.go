package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lj.aliyun.com/kit/pkg/sandbox"
	"lj.aliyun.com/kit/pkg/sandbox/fleet"
	"lj.aliyun.com/kit/pkg/sandbox/simnode"
)

// BenchmarkThousandNodes starts a cluster of 1,000 nodes and runs 3,000 pods,
// three on each node, to their end, all created bound. It reports how long
// each part took and the memory of the whole process.
func BenchmarkThousandNodes(b *testing.B) {
	const nodes, pods = 1000, 3000
	f, err := fleet.Parse([]byte(fmt.Sprintf("nodes: [{name: n, count: %d, cards: {model: H800}}]", nodes)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
		start := time.Now()
		c, err := sandbox.Start(ctx, sandbox.Options{NoScheduler: true, Fleet: f, Timing: simnode.Timing{Create: 10 * time.Millisecond}})
		if err != nil {
			b.Fatal(err)
		}
		ready := time.Now()
		cl := kubernetes.NewForConfigOrDie(c.AdminConfig())
		work := make(chan int)
		errs := make(chan error, 16)
		for range 16 {
			go func() {
				var err error
				for i := range work {
					if err == nil {
						_, err = cl.CoreV1().Pods("default").Create(ctx, boundPod(i, nodes), metav1.CreateOptions{})
					}
				}
				errs <- err
			}()
		}
		for i := range pods {
			work <- i
		}
		close(work)
		for range 16 {
			if err := <-errs; err != nil {
				b.Fatal(err)
			}
		}
		created := time.Now()
		for done := 0; done < pods; time.Sleep(200 * time.Millisecond) {
			l, err := cl.CoreV1().Pods("default").List(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "status.phase=Succeeded"})
			if err != nil {
				b.Fatal(err)
			}
			done = len(l.Items)
		}
		ended := time.Now()
		b.ReportMetric(ready.Sub(start).Seconds(), "s/ready")
		b.ReportMetric(created.Sub(ready).Seconds(), "s/create")
		b.ReportMetric(ended.Sub(created).Seconds(), "s/end-after-create")
		b.ReportMetric(rssMiB(), "MiB/rss")
		c.Stop()
		cancel()
	}
}

func boundPod(i, nodes int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i), Annotations: map[string]string{simnode.RunForAnnotation: "1s"}},
		Spec: v1.PodSpec{NodeName: fmt.Sprintf("n-%d", i%nodes), RestartPolicy: v1.RestartPolicyNever,
			Containers: []v1.Container{{Name: "c", Image: "none", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{"aliyun.com/gpu": resource.MustParse("1")}}}}},
	}
}

func rssMiB() float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib float64
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(rest, &kib)
		}
	}
	return kib / 1024
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// log is what the scheduler has written.
func (s *scheduled) log(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(statedir.Dir(filepath.Dir(s.SchedulerKubeconfig())).SchedulerLog())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An API server of today with the groups of tomorrow and of others off is the
// nearest to an old one that can be run here.
func TestTheSchedulerWorksWithoutTheOptionalAPIGroups(t *testing.T) {
	s := startScheduledWith(t, sandbox.Options{APIServerFlags: []string{
		"--runtime-config=resource.k8s.io/v1=false,scheduling.k8s.io/v1beta1=false,policy/v1=false"}})
	s.create(t, "p", "2", nil)
	eventually(t, "the pod bound", func() (bool, string) { return s.bound(t, "p") })
	p, err := s.client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if alloc, why := kube.AllocationOf(p); alloc == nil {
		t.Errorf("bound without cards: %s", why)
	}
	log := s.log(t)
	for _, group := range []string{"policy/v1/poddisruptionbudgets", "resource.k8s.io/v1/resourceclaims", "scheduling.k8s.io/v1beta1/podgroups"} {
		if !strings.Contains(grep(log, `"Connected"`), group) {
			t.Errorf("the log does not say that %s is absent:\n%s", group, log)
		}
	}
}

// The scheduler is asked to end in the middle of a burst: the lease is given
// back, the next one goes on at once, and nothing is left half done.
func TestAnEndInTheMiddleOfABurst(t *testing.T) {
	s := startScheduled(t)
	leases, err := s.client.CoordinationV1().Leases(kube.Namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer leases.Stop()
	const pods = 60
	for i := range pods {
		s.create(t, fmt.Sprintf("p-%02d", i), "0", func(p *v1.PodSpec) {
			p.Containers[0].Resources.Limits = v1.ResourceList{"aliyun.com/gpu-core": amount("x", "10")["x"], "aliyun.com/gpu-memory": amount("x", "2")["x"]}
		})
		if i == pods/2 {
			s.signal(t, syscall.SIGTERM)
		}
	}
	s.judged(t, pods)
	eventually(t, "the next leader", func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last.State == statedir.SchedulerLeading && s.last.Restarts == 1, fmt.Sprintf("%+v", s.last)
	})
	var holders []string
	for given := false; !given; {
		select {
		case e := <-leases.ResultChan():
			l, ok := e.Object.(*coordinationv1.Lease)
			if !ok || l.Name != kube.SchedulerLease {
				continue
			}
			holders = append(holders, ptr.Deref(l.Spec.HolderIdentity, ""))
			given = holders[len(holders)-1] == ""
		case <-time.After(10 * time.Second):
			t.Fatalf("the lease was not given back; its holders were %q", holders)
		}
	}
}

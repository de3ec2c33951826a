package server

import (
	"context"
	"errors"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"lj.aliyun.com/kit/pkg/kube"
)

// A process that slept while another took the lease must not go on for the
// ten seconds that the elector tries to get it back.
func TestALeaderThatWasReplacedStopsAtOnce(t *testing.T) {
	client := fake.NewClientset()
	lead, err := newLeader(client, true)
	if err != nil {
		t.Fatal(err)
	}
	if lead.may() == nil {
		t.Error("a process that never led may write")
	}
	begun, stopped, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- lead.run(t.Context(), func(ctx context.Context) {
			close(begun)
			<-ctx.Done()
			close(stopped)
		})
	}()
	<-begun
	if err := lead.may(); err != nil {
		t.Errorf("the leader may not write: %v", err)
	}
	leases := client.CoordinationV1().Leases(kube.Namespace)
	lease, err := leases.Get(t.Context(), kube.SchedulerLease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other, now := "other", metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &other, &now
	// The fake API knows no conflicts, so the old leader must be kept from
	// writing over its successor.
	client.PrependReactor("update", "leases", refuseStale)
	if err := client.Tracker().Update(leasesGVR, lease, kube.Namespace); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the loss is no error")
		}
	case <-time.After(renewDeadline / 2):
		t.Fatal("it goes on although another process leads")
	}
	<-stopped
	if lead.may() == nil {
		t.Error("it may still write")
	}
}

var leasesGVR = coordination.SchemeGroupVersion.WithResource("leases")

func refuseStale(a k8stesting.Action) (bool, runtime.Object, error) {
	return true, nil, apierrors.NewConflict(leasesGVR.GroupResource(), kube.SchedulerLease, errors.New("changed"))
}

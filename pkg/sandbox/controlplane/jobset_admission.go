package controlplane

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"

	"lj.aliyun.com/kit/pkg/sandbox/jobsethook"
)

// leaders answers jobsethook's questions from the JobSet controller's cache.
type leaders struct{ c client.Client }

func (l leaders) Topology(ctx context.Context, namespace, name string, owner *metav1.OwnerReference, key string) (string, error) {
	var pods v1.PodList
	if err := l.c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingFields{jobsetcontrollers.PodNameKey: name}); err != nil {
		return "", err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		ref := metav1.GetControllerOf(p)
		// A leader of an earlier round may still be in the cache.
		if p.DeletionTimestamp != nil || ref == nil || owner == nil || ref.UID != owner.UID || p.Spec.NodeName == "" {
			continue
		}
		var node v1.Node
		if err := l.c.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, &node); err != nil {
			return "", err
		}
		if v, ok := node.Labels[key]; ok {
			return v, nil
		}
		return "", fmt.Errorf("node %s of the leader pod %s has no label %s", node.Name, p.Name, key)
	}
	return "", nil
}

// installJobSetAdmission registers the webhook. Pods are sent to it only if
// their JobSet asks for a topology of its own, so other pods pay nothing.
func installJobSetAdmission(ctx context.Context, c kubernetes.Interface, addr string, caPEM []byte) error {
	fail, none := admissionv1.Fail, admissionv1.SideEffectClassNone
	hook := func(path string) admissionv1.WebhookClientConfig {
		url := "https://" + addr + path
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: caPEM}
	}
	rule := func(group, version, resource string, ops ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: ops, Rule: admissionv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
	}
	versions := []string{"v1"}
	jobsetRule := func(ops ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return rule("jobset.x-k8s.io", "v1alpha2", "jobsets", ops...)
	}
	if _, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "jobset-mutating-webhook-configuration"},
		Webhooks: []admissionv1.MutatingWebhook{
			{Name: "mjobset.kb.io", ClientConfig: hook(jobsethook.MutateJobSetPath), Rules: jobsetRule(admissionv1.Create),
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: versions},
			{Name: "mpod.kb.io", ClientConfig: hook(jobsethook.MutatePodPath), Rules: rule("", "v1", "pods", admissionv1.Create),
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: versions,
				MatchConditions: []admissionv1.MatchCondition{{Name: "exclusive-placement", Expression: jobsethook.PodCondition}}},
		},
	}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register the JobSet defaulting: %w", err)
	}
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "jobset-validating-webhook-configuration"},
		Webhooks: []admissionv1.ValidatingWebhook{
			{Name: "vjobset.kb.io", ClientConfig: hook(jobsethook.ValidateJobSetPath), Rules: jobsetRule(admissionv1.Create, admissionv1.Update),
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: versions},
		},
	}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register the JobSet validation: %w", err)
	}
	return nil
}

// waitJobSets returns when a JobSet would be accepted and defaulted: the
// definition is served and the API server has noticed the webhook.
func waitJobSets(ctx context.Context, admin *rest.Config) error {
	c, err := jobsetclient.NewForConfig(admin)
	if err != nil {
		return err
	}
	probe := &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: metav1.NamespaceDefault},
		Spec: jobset.JobSetSpec{ReplicatedJobs: []jobset.ReplicatedJob{{Name: "w", Replicas: 1, GroupName: "default",
			Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: v1.PodTemplateSpec{Spec: v1.PodSpec{
				Containers: []v1.Container{{Name: "c", Image: "none"}}}}}}}}},
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := c.JobsetV1alpha2().JobSets(metav1.NamespaceDefault).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && got.Spec.StartupPolicy != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the JobSet API is not ready (last answer: %v): %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lj.aliyun.com/kit/deploy"
	"lj.aliyun.com/kit/pkg/kube"
)

// Users of the cluster. Each has a certificate of its own and no rights but
// those that install binds.
const (
	// SchedulerUser is who our scheduler is: the account that deploy/ gives
	// it, with exactly the rights of deploy/.
	SchedulerUser = "system:serviceaccount:" + kube.Namespace + ":" + kube.SchedulerApp
	adminUser     = "ljsandbox-admin"
	kubeletUser   = "ljsandbox-kubelets"
	jobsetUser    = "ljsandbox-jobset"
	managerUser   = "system:kube-controller-manager"

	mastersGroup = "system:masters"
	nodesGroup   = "system:nodes"
)

// schedulerGroups are those of every service account of the namespace.
var schedulerGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + kube.Namespace}

// install creates what the suite expects in a cluster: the rights and rules of
// deploy/, the settings, and the rights of the sandbox's own users.
func install(ctx context.Context, admin *rest.Config, c kubernetes.Interface, config string) error {
	if err := applyRules(ctx, admin); err != nil {
		return err
	}
	_, err := c.CoreV1().ConfigMaps(kube.Namespace).Create(ctx, &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: kube.ConfigMap, Namespace: kube.Namespace},
		Data:       map[string]string{kube.ConfigKey: config},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create configmap %s: %w", kube.ConfigMap, err)
	}
	return grant(ctx, c)
}

// applyRules creates the objects of deploy.Rules.
func applyRules(ctx context.Context, admin *rest.Config) error {
	client, err := dynamic.NewForConfig(admin)
	if err != nil {
		return err
	}
	for _, name := range deploy.Rules {
		text, err := deploy.Files.ReadFile(name)
		if err != nil {
			return err
		}
		docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var u unstructured.Unstructured
			if err := docs.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("deploy/%s: %w", name, err)
			}
			// All kinds there are Kubernetes' own, whose plurals are regular.
			gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
			_, err := client.Resource(gvr).Namespace(u.GetNamespace()).Create(ctx, &u, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("deploy/%s: create %s %s: %w", name, u.GetKind(), u.GetName(), err)
			}
		}
	}
	return nil
}

// grant creates the roles and bindings of the sandbox's own users.
func grant(ctx context.Context, c kubernetes.Interface) error {
	role := jobsetRole()
	if _, err := c.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create cluster role %s: %w", role.Name, err)
	}
	for _, b := range []struct{ role, user string }{{"system:node", kubeletUser}, {role.Name, jobsetUser}} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: b.user}},
		}
		if _, err := c.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create cluster role binding %s: %w", b.user, err)
		}
	}
	return nil
}

// jobsetRole has the markers of the JobSet controller's source, and services
// of its webhook.
func jobsetRole() *rbacv1.ClusterRole {
	read := []string{"get", "list", "watch"}
	write := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: jobsetUser},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: write},
			{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets/status", "jobsets/finalizers"}, Verbs: write},
			{APIGroups: []string{"batch"}, Resources: []string{"jobs", "jobs/status"}, Verbs: write},
			{APIGroups: []string{""}, Resources: []string{"services", "pods", "persistentvolumeclaims"}, Verbs: write},
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read},
			{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update", "watch"}},
		},
	}
}

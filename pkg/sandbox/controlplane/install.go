package controlplane

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lj.aliyun.com/kit/pkg/kube"
)

// Users of the cluster. Each has a certificate of its own and no rights but
// those that install binds.
const (
	// SchedulerUser is who our scheduler is.
	SchedulerUser = "lj-scheduler"
	adminUser     = "ljsandbox-admin"
	kubeletUser   = "ljsandbox-kubelets"
	jobsetUser    = "ljsandbox-jobset"
	managerUser   = "system:kube-controller-manager"

	mastersGroup = "system:masters"
	nodesGroup   = "system:nodes"
)

// install creates what the suite expects in a cluster: its namespace and
// settings, the runtime class, and the rights of the users above.
func install(ctx context.Context, c kubernetes.Interface, config string) error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"namespace " + kube.Namespace, func() error {
			_, err := c.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kube.Namespace}}, metav1.CreateOptions{})
			return err
		}},
		{"configmap " + kube.ConfigMap, func() error {
			_, err := c.CoreV1().ConfigMaps(kube.Namespace).Create(ctx, &v1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: kube.ConfigMap, Namespace: kube.Namespace},
				Data:       map[string]string{kube.ConfigKey: config},
			}, metav1.CreateOptions{})
			return err
		}},
		{"runtime class " + kube.RuntimeClass, func() error {
			_, err := c.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{
				ObjectMeta: metav1.ObjectMeta{Name: kube.RuntimeClass}, Handler: kube.RuntimeClass,
			}, metav1.CreateOptions{})
			return err
		}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s: %w", s.what, err)
		}
	}
	return grant(ctx, c)
}

// grant creates the roles and bindings.
func grant(ctx context.Context, c kubernetes.Interface) error {
	for _, r := range clusterRoles() {
		if _, err := c.RbacV1().ClusterRoles().Create(ctx, r, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create cluster role %s: %w", r.Name, err)
		}
	}
	for _, b := range clusterBindings() {
		if _, err := c.RbacV1().ClusterRoleBindings().Create(ctx, b, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create cluster role binding %s: %w", b.Name, err)
		}
	}
	role := schedulerRole()
	if _, err := c.RbacV1().Roles(role.Namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create role %s: %w", role.Name, err)
	}
	for _, b := range []*rbacv1.RoleBinding{
		{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name, Namespace: role.Namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   user(SchedulerUser),
		},
		{ // How kube-scheduler authenticates callers of its metrics.
			ObjectMeta: metav1.ObjectMeta{Name: "lj-scheduler-authentication-reader", Namespace: "kube-system"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"},
			Subjects:   user(SchedulerUser),
		},
	} {
		if _, err := c.RbacV1().RoleBindings(b.Namespace).Create(ctx, b, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create role binding %s: %w", b.Name, err)
		}
	}
	return nil
}

// schedulerRole is what the scheduler does in the suite's own namespace: hold
// its lease, whose name the stock role does not cover, and read the settings.
func schedulerRole() *rbacv1.Role {
	leases := []string{"coordination.k8s.io"}
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "lj-scheduler", Namespace: kube.Namespace},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: leases, Resources: []string{"leases"}, Verbs: []string{"create"}},
			{APIGroups: leases, Resources: []string{"leases"}, ResourceNames: []string{kube.SchedulerLease},
				Verbs: []string{"get", "update", "patch", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{kube.ConfigMap},
				Verbs: []string{"get", "list", "watch"}},
		},
	}
}

func clusterRoles() []*rbacv1.ClusterRole {
	read := []string{"get", "list", "watch"}
	write := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return []*rbacv1.ClusterRole{
		{ // Finished members of a gang come from Jobs; the janitor evicts.
			ObjectMeta: metav1.ObjectMeta{Name: "lj-scheduler"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: read},
				{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: read},
				{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
			},
		},
		{ // The markers of the JobSet controller's source, and services of its webhook.
			ObjectMeta: metav1.ObjectMeta{Name: jobsetUser},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: write},
				{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets/status", "jobsets/finalizers"}, Verbs: write},
				{APIGroups: []string{"batch"}, Resources: []string{"jobs", "jobs/status"}, Verbs: write},
				{APIGroups: []string{""}, Resources: []string{"services", "pods", "persistentvolumeclaims"}, Verbs: write},
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read},
				{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update", "watch"}},
			},
		},
	}
}

func clusterBindings() []*rbacv1.ClusterRoleBinding {
	var out []*rbacv1.ClusterRoleBinding
	for _, b := range []struct{ name, role, user string }{
		{"lj-scheduler-kube-scheduler", "system:kube-scheduler", SchedulerUser},
		{"lj-scheduler-volume-scheduler", "system:volume-scheduler", SchedulerUser},
		{"lj-scheduler", "lj-scheduler", SchedulerUser},
		{kubeletUser, "system:node", kubeletUser},
		{jobsetUser, jobsetUser, jobsetUser},
	} {
		out = append(out, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   user(b.user),
		})
	}
	return out
}

func user(name string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}
}

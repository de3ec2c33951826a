package submit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/ljctl/jobs"
)

// fieldManager is who the server writes down as the author.
const fieldManager = "ljctl"

// wellKnown are the resources of kinds that jobs consist of: no discovery is
// needed for them.
var wellKnown = map[schema.GroupKind]string{
	{Kind: "Pod"}: "pods", {Kind: "Service"}: "services", {Kind: "ConfigMap"}: "configmaps", {Kind: "Secret"}: "secrets",
	{Kind: "PersistentVolumeClaim"}: "persistentvolumeclaims", {Kind: "ServiceAccount"}: "serviceaccounts",
	{Group: "batch", Kind: "Job"}: "jobs", {Group: "batch", Kind: "CronJob"}: "cronjobs",
	{Group: "apps", Kind: "Deployment"}: "deployments", {Group: "apps", Kind: "StatefulSet"}: "statefulsets",
	{Group: "apps", Kind: "DaemonSet"}: "daemonsets", {Group: "apps", Kind: "ReplicaSet"}: "replicasets",
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}: "jobsets",
}

// target is the client for one object's kind and namespace.
func (o *options) target(dyn dynamic.Interface, u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := u.GroupVersionKind()
	if res, ok := wellKnown[gvk.GroupKind()]; ok {
		return dyn.Resource(gvk.GroupVersion().WithResource(res)).Namespace(u.GetNamespace()), nil
	}
	mapper, err := o.f.ConfigFlags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		if meta.IsNoMatchError(err) {
			return nil, cliutil.WithHint(fmt.Errorf("ENV: the server has no %s of %s", gvk.Kind, u.GetAPIVersion()),
				"is its operator installed? see: kubectl api-resources")
		}
		return nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		u.SetNamespace("")
		return dyn.Resource(m.Resource), nil
	}
	return dyn.Resource(m.Resource).Namespace(u.GetNamespace()), nil
}

// ref is an object as kubectl's -o name spells it.
func ref(u *unstructured.Unstructured) string {
	name := u.GetName()
	if name == "" {
		name = u.GetGenerateName() + "*"
	}
	return jobs.Resource(u.GetAPIVersion(), u.GetKind()) + "/" + name
}

package server

import (
	"fmt"
	"path"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// wanted are the optional collections in the versions in which the engine
// lists them.
var wanted = []string{
	"policy/v1/poddisruptionbudgets",
	"resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1/devicetaintrules", "resource.k8s.io/v1/resourceclaims",
	"resource.k8s.io/v1/resourceslices", "scheduling.k8s.io/v1beta1/podgroups",
}

// absent lists those that the API server does not serve. It is for the log
// alone: the shim finds out by itself, at each request.
func absent(d discovery.ServerResourcesInterface) ([]string, error) {
	out := []string{}
	served := map[string]*metav1.APIResourceList{}
	for _, w := range wanted {
		gv, name := path.Split(w)
		gv = path.Clean(gv)
		list, asked := served[gv]
		if !asked {
			var err error
			if list, err = d.ServerResourcesForGroupVersion(gv); err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("API group %s: %w", gv, err)
			}
			served[gv] = list
		}
		if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			out = append(out, w)
		}
	}
	return out, nil
}

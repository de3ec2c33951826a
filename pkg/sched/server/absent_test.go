package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestAbsentCollectionsAreNamed(t *testing.T) {
	for name, want := range map[string][]string{
		"1.28": wanted[1:],
		"1.36": {"resource.k8s.io/v1/devicetaintrules", "scheduling.k8s.io/v1beta1/podgroups"},
		"1.37": {"scheduling.k8s.io/v1beta1/podgroups"}, "1.37 with everything on": {}, "nothing optional": wanted,
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := clientcmd.BuildConfigFromFlags("", newOldServer(t, shapes[name]...).kubeconfig(t))
			if err != nil {
				t.Fatal(err)
			}
			got, err := absent(kubernetes.NewForConfigOrDie(cfg).Discovery())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is said to be absent must be what the shim answers for.
func TestTheShimKnowsAllThatMayBeAbsent(t *testing.T) {
	for _, w := range wanted {
		if kind, _ := collection("/apis/" + w); kind == "" {
			t.Errorf("the shim does not answer for %s", w)
		}
	}
	if !slices.IsSortedFunc(wanted, strings.Compare) {
		t.Error("not in order")
	}
}

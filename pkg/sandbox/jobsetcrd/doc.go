// Package jobsetcrd carries the JobSet custom resource definition, so that
// the sandbox can serve JobSets without fetching anything.
//
// crd.yaml is a copy of config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml
// of the module sigs.k8s.io/jobset, without the descriptions. It is the work
// of the JobSet authors under the Apache License 2.0; see NOTICE. `go generate`
// makes it again from the version that go.mod names.
package jobsetcrd

import (
	_ "embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:generate go run ./gen crd.yaml

//go:embed crd.yaml
var raw []byte

// Name is the name of the definition.
const Name = "jobsets.jobset.x-k8s.io"

// Load returns a fresh copy of the definition.
func Load() (*apiextensionsv1.CustomResourceDefinition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return nil, fmt.Errorf("embedded JobSet definition: %w", err)
	}
	return &crd, nil
}

package deploy_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/deploy"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

// build is what "kubectl apply -k FOLDER" would send.
func build(t *testing.T, folder string) []runtime.Object {
	t.Helper()
	disk := filesys.MakeFsInMemory()
	err := fs.WalkDir(deploy.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := deploy.Files.ReadFile(path)
		if err != nil {
			return err
		}
		return disk.WriteFile("/deploy/"+path, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		obj, _, err := strict.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		out = append(out, obj)
	}
}

func TestAllManifestsAreValidAndReached(t *testing.T) {
	all := build(t, "/deploy")
	found := find[*appsv1.Deployment](all)
	if found == nil {
		t.Fatal("no deployment")
	}
	pod := found.Spec.Template.Spec
	if pod.ServiceAccountName != kube.SchedulerApp || found.Namespace != kube.Namespace || found.Spec.Template.Labels[kube.NameLabel] != kube.SchedulerApp {
		t.Errorf("not the names that the programs look for: %s %s %v", pod.ServiceAccountName, found.Namespace, found.Spec.Template.Labels)
	}
	if img := pod.Containers[0].Image; img != "lingjun-kit:VERSION" {
		t.Errorf("image %s", img)
	}
	for _, p := range []*v1.Probe{pod.Containers[0].StartupProbe, pod.Containers[0].LivenessProbe, pod.Containers[0].ReadinessProbe} {
		if p == nil || p.HTTPGet.Scheme != v1.URISchemeHTTPS {
			t.Errorf("probe %+v", p)
		}
	}
	if n := len(build(t, "/deploy/dra")); n != 2 {
		t.Errorf("%d objects in dra", n)
	}
	// Every file is in a kustomization, and Rules has all but programs and settings.
	var files []string
	for _, pattern := range []string{"base/*.yaml", "admission/*.yaml"} {
		m, err := fs.Glob(deploy.Files, pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	reached := append([]string{"base/kustomization.yaml", "admission/kustomization.yaml", "base/config.yaml", "base/scheduler.yaml"}, deploy.Rules...)
	slices.Sort(files)
	slices.Sort(reached)
	if diff := cmp.Diff(reached, files); diff != "" {
		t.Errorf("files and deploy.Rules differ (-want +files):\n%s", diff)
	}
}

func TestTheSettingsAreTheDefaults(t *testing.T) {
	cm := find[*v1.ConfigMap](build(t, "/deploy/base"))
	if cm == nil || cm.Name != kube.ConfigMap || cm.Namespace != kube.Namespace {
		t.Fatalf("got %v", cm)
	}
	text := cm.Data[kube.ConfigKey]
	got, err := kube.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.UnitKnown = true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-defaults +deploy):\n%s", diff)
	}
	for _, key := range kube.ConfigKeys() {
		if !strings.Contains(text, key[strings.LastIndexByte(key, '.')+1:]+":") {
			t.Errorf("does not speak of %s", key)
		}
	}
}

func find[T runtime.Object](all []runtime.Object) (none T) {
	for _, o := range all {
		if x, ok := o.(T); ok {
			return x
		}
	}
	return none
}

package whypending

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/kube"
)

// The same question to a cluster and to a file of it has the same answer.
func TestClusterAndFileAgree(t *testing.T) {
	c := pendingCase{Nodes: []nodeBrief{{Name: "n1", Cards: "2 A10", Hold: map[string]string{"0": "core 60 mem 10", "1": "whole"}}},
		Pods: []podBrief{{Name: "p", Ask: "core 50 mem 4"}}}
	snap := snapshotOf(t, c)
	s, err := kube.LoadSnapshot(strings.NewReader(snap))
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for _, n := range s.Nodes {
		objects = append(objects, n)
	}
	for _, p := range s.Pods {
		objects = append(objects, p)
	}
	for _, l := range s.Leases {
		objects = append(objects, l)
	}
	for _, rc := range s.RuntimeClasses {
		objects = append(objects, rc)
	}
	var out bytes.Buffer
	f := cliutil.NewFactory("ljctl", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	f.Clock = clocktesting.NewFakeClock(caseNow)
	f.SetClients(fake.NewClientset(objects...), dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{kube.JobSets: "JobSetList", kube.HyperNodes: "HyperNodeList"}))
	cmd := NewCmd(f)
	f.ConfigFlags.AddFlags(cmd.PersistentFlags())
	cmd.SetArgs([]string{"p", "-n", "default"})
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	file, _ := command(t, snap, "p", "-n", "default", "--snapshot", "-")
	if out.String() != file {
		t.Errorf("cluster:\n%s\nfile:\n%s", out.String(), file)
	}
	if !strings.Contains(file, "WAIT fragmented-core") && !strings.Contains(file, "WAIT gpus-busy") {
		t.Error(file)
	}
}

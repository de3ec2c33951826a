package demo

import (
	"io/fs"
	"testing"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
	"lj.aliyun.com/kit/pkg/manifest"
)

// All manifests of the demonstration are right, but for the one that is there
// to be wrong.
func TestManifests(t *testing.T) {
	files, err := fs.Glob(manifests, "manifests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	c := config.Default()
	c.UnitKnown = true
	for _, name := range files {
		data, err := manifests.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := reason.OK
		if name == "manifests/broken.yaml" {
			want = reason.Invalid
		}
		for _, d := range manifest.Parse(manifest.Source{Name: name, Data: data}) {
			o := d.Judge(rules.Options{Config: c})
			if o.Verdict != want || o.Request == nil && want == reason.OK {
				t.Errorf("%s: %s %s: %s, want %s: %v", name, o.Kind, o.Name, o.Verdict, want, o.Findings)
			}
		}
	}
}

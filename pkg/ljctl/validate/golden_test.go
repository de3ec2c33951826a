package validate

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Every input under testdata, in each format that it has a golden file for.
func TestGolden(t *testing.T) {
	for _, g := range []struct{ input, output, golden string }{
		{"mistakes.yaml", "text", "mistakes.txt"},
		{"mixed.yaml", "text", "mixed.txt"},
		{"mixed.yaml", "json", "mixed.json"},
		{"mixed.yaml", "yaml", "mixed.golden-yaml"},
		{"mixed.yaml", "sarif", "mixed.sarif"},
		{"clean.json", "text", "clean.txt"},
		{"clean.json", "sarif", "clean.sarif"},
		{"broken.yaml", "text", "broken.txt"},
	} {
		t.Run(g.golden, func(t *testing.T) {
			out, errOut, _ := runCmd(t, "", "-f", filepath.Join("testdata", g.input), "-o", g.output)
			got := out
			if g.output == "text" {
				got += "-- stderr --\n" + errOut
			}
			compareGolden(t, filepath.Join("testdata", g.golden), got)
		})
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it anew:\n%s", path, diff)
	}
}

// Code scanners refuse a log without results, or with other text around it.
func TestSARIFWithoutFindingsHasAnEmptyList(t *testing.T) {
	out, _, _ := runCmd(t, "", "-f", "testdata/clean.json", "-o", "sarif")
	var log map[string]any
	if err := json.Unmarshal([]byte(out), &log); err != nil {
		t.Fatal(err)
	}
	run := log["runs"].([]any)[0].(map[string]any)
	if results, ok := run["results"].([]any); !ok || len(results) != 0 {
		t.Errorf("results is %v, want an empty list", run["results"])
	}
}

func TestColour(t *testing.T) {
	for _, c := range []struct {
		setting string
		want    bool
	}{{"always", true}, {"never", false}, {"auto", false}} {
		if got := colour(c.setting, &strings.Builder{}); got != c.want {
			t.Errorf("colour %s on a pipe: %v, want %v", c.setting, got, c.want)
		}
	}
}

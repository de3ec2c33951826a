package whypending

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldens are the cases whose text is looked at as a whole, and with which
// arguments.
var goldens = []struct {
	file, about string
	args        []string
}{
	{"fragmented", "C67", []string{"p"}},
	{"several-causes", "C59 several", []string{"p"}},
	{"labels", "C51", []string{"p"}},
	{"labels-wide", "C51", []string{"p", "-o", "wide"}},
	{"one-node", "C59 several", []string{"p", "--node", "n2"}},
	{"no-headers", "C57", []string{"p", "--no-headers"}},
	{"quota", "C63", []string{"job/train"}},
	{"group-and-quota", "C64", []string{"jobset/set"}},
	{"not-allowed", "C87", []string{"p"}},
	{"json", "C57", []string{"p", "-o", "json"}},
	{"yaml", "C66a", []string{"p", "-o", "yaml"}},
	{"all", "C83", []string{"-A"}},
}

func TestGoldenText(t *testing.T) {
	cases := loadCases(t)
	for _, g := range goldens {
		t.Run(g.file, func(t *testing.T) {
			for _, c := range cases {
				if !strings.HasPrefix(c.Case, g.about) {
					continue
				}
				out, exit := command(t, snapshotOf(t, c), append([]string{"--snapshot", "-", "-n", "default"}, g.args...)...)
				if exit != 0 {
					t.Errorf("exit %d", exit)
				}
				golden(t, g.file, out)
				return
			}
			t.Fatalf("no case %s", g.about)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
	for _, line := range strings.Split(got, "\n") {
		if n := len([]rune(line)); n > width && !strings.Contains(name, "wide") && !strings.Contains(name, "json") && !strings.Contains(name, "yaml") && !strings.Contains(name, "all") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

package manifest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// bomb is a document whose aliases multiply by ten at each of the levels.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func judgeAll(data []byte) []Object {
	var out []Object
	for _, d := range Parse(Source{Name: "test", Data: data}) {
		out = append(out, d.Judge(rules.Options{Config: config.Default()}))
	}
	return out
}

// Input that is broken, huge or hostile gets one verdict and a sentence, and
// never more time or memory than its size is worth.
func TestHostileInput(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		what    string
		data    string
		code    reason.Code
		verdict reason.Verdict
		line    int
	}{
		{"an empty file", "", "nothing-to-check", reason.Unknown, 0},
		{"blanks and comments only", "\n# nothing\n\n", "nothing-to-check", reason.Unknown, 0},
		{"a marker only", "---\n", "nothing-to-check", reason.Unknown, 0},
		{"a NUL byte", "kind: Pod\nname: a\x00b\n", "not-text", reason.Invalid, 2},
		{"no UTF-8", "kind: Pod\nname: \xff\xfe\n", "not-text", reason.Invalid, 2},
		{"UTF-16", "\xff\xfek\x00i\x00", "not-text", reason.Invalid, 1},
		{"a missing bracket", "a: [1, 2\nb: 3\n", "yaml-syntax", reason.Invalid, 1},
		{"a tab", "a:\n\tb: 1\n", "yaml-syntax", reason.Invalid, 2},
		{"a tab in the second document", "a: 1\n---\nb: 1\na:\n\tb: 1\n", "yaml-syntax", reason.Invalid, 5},
		{"an alias that is not there", "a: *b\n", "yaml-syntax", reason.Invalid, 1},
		{"an alias bomb", bomb(9), "alias-bomb", reason.Invalid, 1},
		{"a bomb of one long text", "a: &a " + huge + "\nb: [*a, *a, *a, *a]\n", "alias-bomb", reason.Invalid, 1},
		{"a cycle", "a: &a [*a]\n", "yaml-syntax", reason.Invalid, 1},
		{"a cycle through a merge", "a: &a\n  <<: *a\n", "yaml-syntax", reason.Invalid, 1},
		{"deep nesting in YAML", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "nested-too-deep", reason.Invalid, 1},
		{"deeper than the parser takes", strings.Repeat("[", 100000), "yaml-syntax", reason.Invalid, 1},
		{"deep nesting in JSON", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "nested-too-deep", reason.Invalid, 1},
		{"a document over 3 MiB", "a: b\nc: " + strings.Repeat("x", maxDocument), "document-too-large", reason.Invalid, 1},
		{"a list at the top", "- a\n- b\n", "not-an-object", reason.Invalid, 1},
		{"a text at the top", "hello\n", "not-an-object", reason.Invalid, 1},
		{"no kind", "apiVersion: v1\n", "kind-missing", reason.Invalid, 1},
		{"Kind with a capital", "apiVersion: v1\nKind: Pod\n", "kind-missing", reason.Invalid, 1},
		{"an empty List", "apiVersion: v1\nkind: List\nitems: []\n", "nothing-to-check", reason.Unknown, 3},
		{"a List in a List", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [{apiVersion: foo/v1, kind: Bar}]}]\n", "kind-not-known", reason.Unknown, 3},
		{"a list of pods that nobody checked", "apiVersion: v1\nkind: PodList\nitems: []\n", "kind-not-known", reason.Unknown, 2},
		{"a List of texts", "apiVersion: v1\nkind: List\nitems: [a]\n", "not-an-object", reason.Invalid, 3},
		{"an exponent that costs minutes", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1e-100000000}}}]}\n" +
			"---\napiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: \"1e-100000000\"}}}]}\n", "bad-quantity", reason.Invalid, 7},
	} {
		t.Run(c.what, func(t *testing.T) {
			objects := judgeAll([]byte(c.data))
			last := objects[len(objects)-1]
			if last.Verdict != c.verdict {
				t.Errorf("verdict %s, want %s: %+v", last.Verdict, c.verdict, last.Findings)
			}
			f := find(last.Findings, c.code)
			if f == nil {
				t.Fatalf("no %s in %+v", c.code, last.Findings)
			}
			if f.Line != c.line {
				t.Errorf("line %d, want %d", f.Line, c.line)
			}
			if s := f.Reason.Sentence(); strings.ContainsAny(s, "{}\n") || len(s) > 300 {
				t.Errorf("not one clear sentence: %.300q", s)
			}
		})
	}
}

func find(fs []Finding, code reason.Code) *Finding {
	for i := range fs {
		if fs[i].Reason.Code == code {
			return &fs[i]
		}
	}
	return nil
}

// endless is a stream that never ends, and counts what was taken from it.
type endless struct{ taken int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.taken += len(p)
	return len(p), nil
}

func TestLargeInputIsNotReadToItsEnd(t *testing.T) {
	in := &endless{}
	s := Read(Source{Name: Stdin}, in)
	if objects := docsOf(s); find(objects[0].Findings, "file-too-large") == nil || objects[0].Verdict != reason.Unknown {
		t.Errorf("got %+v", objects[0])
	}
	if in.taken > 2*MaxFileBytes {
		t.Errorf("read %d bytes of an endless stream", in.taken)
	}

	// A sparse file of 100 MB is refused by its size alone.
	path := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 100<<20); err != nil {
		t.Fatal(err)
	}
	got := Read(Source{Name: path}, nil)
	if got.Data != nil || find(docsOf(got)[0].Findings, "file-too-large") == nil {
		t.Errorf("a file of 100 MB was read")
	}
}

func docsOf(s Source) []Object {
	var out []Object
	for _, d := range Parse(s) {
		out = append(out, d.Judge(rules.Options{Config: config.Default()}))
	}
	return out
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.json", "c.txt", "sub/d.yml", "E.YAML"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("a: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func(recursive bool) string {
		var out []string
		for _, s := range Sources([]string{dir, filepath.Join(dir, "c.txt"), Stdin, filepath.Join(dir, "no.yaml")}, recursive) {
			name := strings.TrimPrefix(s.Name, dir+"/")
			if s.Err != nil {
				name += "!"
			}
			out = append(out, name)
		}
		return strings.Join(out, " ")
	}
	if got, want := names(false), "E.YAML a.json b.yaml c.txt - no.yaml!"; got != want {
		t.Errorf("flat: %s, want %s", got, want)
	}
	if got, want := names(true), "E.YAML a.json b.yaml sub/d.yml c.txt - no.yaml!"; got != want {
		t.Errorf("recursive: %s, want %s", got, want)
	}
	s := Read(Sources([]string{filepath.Join(dir, "no.yaml")}, false)[0], nil)
	if o := docsOf(s)[0]; o.Verdict != reason.Env || o.Verdict.ExitCode() != reason.ExitError {
		t.Errorf("a missing file: %+v", o)
	}
}

// FuzzParse feeds bytes through everything up to the verdict: no panic, no
// endless loop, positions inside the file, codes of the closed list.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "---\n", "{}", "[]", "a: &a [*a]", bomb(3), "{\"a\": 1, \"a\": 2}", "a: 010\nb: yes\nc: 1_000\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {replica: \"2 \"}}\nspec: {containers: [{name: a, resources: {limits: {aliyun.com/gpu-core: \"5\"}}}]}\n",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {}}}}, 3]\n",
		"<<: {a: 1}\nb: *x\n", "? [a]\n: b\n", "%YAML 1.1\n---\na: b\n...\n---\nc\n", "{a: 1}\n---\n{b: 2}\n", "\xef\xbb\xbfa: 1",
		"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: x}\nspec: {replicatedJobs: [{name: w, template: {spec: {parallelism: -1}}}]}\n",
		"a.b[0]: {c]: [d]}\n", "apiVersion: ray.io/v1\nkind: RayCluster\nspec: {headGroupSpec: {template: 3}, workerGroupSpecs: [1]}\n",
		"kind: Pod\napiVersion: v1\nspec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, o := range judgeAll(data) {
			for _, x := range o.Findings {
				if _, ok := reason.Lookup(x.Reason.Code); !ok {
					t.Errorf("code %s is not in the closed list", x.Reason.Code)
				}
				if x.Line < 0 || x.Line > lines+1 {
					t.Errorf("line %d of %d: %+v", x.Line, lines, x)
				}
			}
		}
	})
}

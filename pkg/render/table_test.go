package render

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTableLooksLikeKubectls(t *testing.T) {
	tab := &Table{Headers: []string{"NAME", "GPU(Allocated)", "nvidia.com/gpu", "REASON"}}
	tab.Row("gang", "7/7", "1", "")
	tab.Row("  indented", "x", "12345678901234567890", "evil\x1b[31m\ntext\u202e")
	tab.Row("中文", "1")
	for _, lang := range []string{"C", "zh_CN.UTF-8"} {
		t.Setenv("LANG", lang)
		t.Setenv("LC_ALL", lang)
		var b strings.Builder
		if err := tab.Print(&b, false); err != nil {
			t.Fatal(err)
		}
		want := `
NAME         GPU(Allocated)   nvidia.com/gpu         REASON
gang         7/7              1                      -
  indented   x                12345678901234567890   evil\u001b[31m text\u202e
中文         1                -                      -
`
		if d := cmp.Diff(want, "\n"+b.String()); d != "" {
			t.Errorf("%s: %s", lang, d)
		}
	}
	var b strings.Builder
	if err := tab.Print(&b, true); err != nil || strings.Contains(b.String(), "NAME") || strings.Count(b.String(), "\n") != 3 {
		t.Errorf("without headers: %v\n%s", err, b.String())
	}
}

func TestAnEmptyTablePrintsNothing(t *testing.T) {
	var b strings.Builder
	if err := (&Table{Headers: []string{"NAME"}}).Print(&b, false); err != nil || b.Len() != 0 {
		t.Errorf("%v %q", err, b.String())
	}
}

func TestAgeAndShort(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for want, then := range map[string]time.Time{
		"3m": now.Add(-3 * time.Minute), "26h": now.Add(-26 * time.Hour), "<unknown>": {}, "0s": now.Add(time.Hour),
	} {
		if got := Age(now, then); got != want {
			t.Errorf("Age = %q, want %q", got, want)
		}
	}
	if got := Short("äöüß", 3); got != "äö…" {
		t.Errorf("Short = %q", got)
	}
}

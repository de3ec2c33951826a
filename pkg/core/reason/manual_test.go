package reason

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

const manual = "../../../docs/reason-codes.md"

// The manual of reason codes is generated from the list, so that they cannot
// drift apart: go test ./pkg/core/reason -update.
func TestTheManualIsUpToDate(t *testing.T) {
	want := manualText()
	if *update {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reason-codes.md is out of date: go test ./pkg/core/reason -update")
	}
}

func manualText() string {
	var b strings.Builder
	b.WriteString("# Reason codes\n\n<!-- generated from pkg/core/reason; do not edit -->\n\n" +
		"Every answer of the suite names its causes by these codes. They are never renamed.\n" +
		"*Passes by* says what ends the cause: `release` when pods end, `self` by itself, `user` a change\n" +
		"of the request, `admin` an act on the node or the cluster.\n")
	for _, s := range []struct {
		title string
		list  []Info
	}{
		{"The node", nodeCodes}, {"One card", cardCodes}, {"The amounts that are asked", requestCodes},
		{"The manifest", manifestCodes}, {"Why a pod is not running", pendingCodes},
	} {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		for _, i := range s.list {
			fmt.Fprintf(&b, "\n### `%s`\n\n%s · passes by %s\n\n%s\n", i.Code, i.Verdict, i.Cure, cell(i.Meaning))
			if i.Fix != "" {
				fmt.Fprintf(&b, "\nNext step: %s\n", cell(i.Fix))
			}
		}
	}
	return b.String()
}

// cell keeps placeholders readable and Markdown out of the way.
func cell(s string) string { return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(s) }

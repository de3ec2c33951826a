package reason

import (
	"regexp"
	"strings"
	"testing"
)

var slug = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func TestTheListIsClosedAndComplete(t *testing.T) {
	seen := map[Code]bool{}
	for _, i := range Codes() {
		switch {
		case !slug.MatchString(string(i.Code)):
			t.Errorf("%q is not a slug", i.Code)
		case seen[i.Code]:
			t.Errorf("%s is in the list twice", i.Code)
		case i.Text == "" || i.Meaning == "":
			t.Errorf("%s has no text or no meaning", i.Code)
		case !strings.HasSuffix(i.Meaning, "."):
			t.Errorf("%s: the meaning is not a sentence: %q", i.Code, i.Meaning)
		case strings.HasSuffix(i.Text, ".") || strings.HasSuffix(i.Fix, "."):
			t.Errorf("%s: clauses take no full stop", i.Code)
		}
		if i.Verdict.rank() == 8 && i.Verdict != Env {
			t.Errorf("%s: verdict %q is not known", i.Code, i.Verdict)
		}
		seen[i.Code] = true
	}
}

func TestPlaceholdersAreKnown(t *testing.T) {
	placeholder := regexp.MustCompile(`\{[a-z]+\}`)
	known := map[string]bool{"{want}": true, "{free}": true, "{total}": true, "{device}": true, "{detail}": true}
	for _, i := range Codes() {
		for _, p := range placeholder.FindAllString(i.Text+i.Fix, -1) {
			if !known[p] {
				t.Errorf("%s: unknown placeholder %s", i.Code, p)
			}
		}
	}
}

func TestSentenceFillsInNumbers(t *testing.T) {
	r := Reason{Code: "fragmented-memory", Want: 10, Free: 6, Total: 24, Unit: "GiB"}
	if got, want := r.Sentence(), "10 GiB asked on one card, at most 6 GiB free on one, 24 GiB in sum"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Reason{Code: "no-such-code"}).Sentence(); got != "no-such-code" {
		t.Errorf("an unknown code must still be shown, got %q", got)
	}
}

func TestExitCodesFollowTheVerdict(t *testing.T) {
	want := map[Verdict]int{OK: 0, Warn: 0, Invalid: 3, Blocked: 3, Refused: 3, Wait: 5, Partial: 5, Unknown: 6, Env: 1}
	if len(want) != len(Verdicts()) {
		t.Fatalf("%d verdicts, the table has %d", len(Verdicts()), len(want))
	}
	for _, v := range Verdicts() {
		if got := v.ExitCode(); got != want[v] {
			t.Errorf("%s: exit %d, want %d", v, got, want[v])
		}
	}
}

func TestWorst(t *testing.T) {
	if got := Worst(); got != OK {
		t.Errorf("nothing is %s", got)
	}
	if got := Worst(Warn, Invalid, OK, Unknown); got != Invalid {
		t.Errorf("got %s", got)
	}
}

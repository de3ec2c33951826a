package validate

import (
	"path/filepath"
	"sort"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/manifest"
)

// sarifLog is SARIF 2.1.0 as far as code scanners read it.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool     `json:"tool"`
	Results []sarifResult `json:"results"` // present even if empty: scanners refuse its absence
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"semanticVersion,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string        `json:"id"`
	ShortDescription sarifText     `json:"shortDescription"`
	Help             sarifText     `json:"help"`
	Default          sarifSeverity `json:"defaultConfiguration"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifSeverity struct {
	Level string `json:"level"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

// sarifOf turns a report into a log with the rules that it uses.
func sarifOf(r *Report, version string) sarifLog {
	index := map[reason.Code]int{}
	rules := []sarifRule{}
	for _, code := range codesOf(r) {
		info, _ := reason.Lookup(code)
		index[code] = len(rules)
		help := info.Fix
		if help == "" {
			help = info.Meaning
		}
		rules = append(rules, sarifRule{ID: string(code), ShortDescription: sarifText{info.Meaning},
			Help: sarifText{help}, Default: sarifSeverity{string(severityOf(info.Verdict))}})
	}
	results := []sarifResult{}
	for i := range r.Objects {
		o := &r.Objects[i]
		for _, f := range o.Findings {
			results = append(results, resultOf(o, f, index[f.Code]))
		}
	}
	return sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{sarifDriver{"ljctl validate", version, rules}}, Results: results}},
	}
}

func resultOf(o *Object, f Finding, rule int) sarifResult {
	text := f.Message
	if f.Fix != "" {
		text += ". Fix: " + f.Fix
	}
	uri := filepath.ToSlash(o.File)
	if o.File == manifest.StdinName {
		uri = "stdin" // an angle bracket is no URI
	}
	loc := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{uri}}}
	if f.Line > 0 {
		loc.Physical.Region = &sarifRegion{f.Line, f.Column}
	}
	if f.Path != "" {
		loc.Logical = []sarifLogical{{f.Path}}
	}
	return sarifResult{RuleID: string(f.Code), RuleIndex: rule, Level: string(f.Severity),
		Message: sarifText{cliutil.Escape(text)}, Locations: []sarifLocation{loc}}
}

func codesOf(r *Report) []reason.Code {
	seen := map[reason.Code]bool{}
	var out []reason.Code
	for i := range r.Objects {
		for _, f := range r.Objects[i].Findings {
			if !seen[f.Code] {
				seen[f.Code] = true
				out = append(out, f.Code)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

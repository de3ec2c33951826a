package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"lj.aliyun.com/kit/pkg/cliutil"
)

// bench is one run.
type bench struct {
	sandbox, ljnode, stock string
	pods, turns, jobCount  int
	report                 Report
}

// part is a group of rows that can be asked for alone.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

var parts = []part{
	{"engine", (*bench).engineRows},
	{"quality", (*bench).qualityRows},
	{"throughput", (*bench).throughputRows},
	{"jobs", (*bench).jobsRows},
	{"gang", (*bench).gangRows},
	{"refusal", (*bench).refusalRows},
}

func main() { os.Exit(run()) }

func run() int {
	b := &bench{report: Report{Version: 1, Machine: thisMachine()}}
	flag.StringVar(&b.sandbox, "ljsandbox", "bin/ljsandbox", "the built program")
	flag.StringVar(&b.ljnode, "ljnode", "bin/ljnode", "the built program")
	flag.StringVar(&b.stock, "kube-scheduler", "bin/kube-scheduler", "the stock scheduler of the same version")
	flag.IntVar(&b.pods, "pods", 1000, "pods of each turn against the stock scheduler")
	flag.IntVar(&b.turns, "turns", 3, "turns of each scheduler")
	flag.IntVar(&b.jobCount, "jobs", 4000, "Jobs on 500 nodes")
	only := flag.String("only", "", "comma-separated parts to measure: "+names()+" (default all)")
	output := flag.String("o", "table", "table or json")
	flag.Parse()
	wanted, err := choose(*only, *output)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-sched:", err)
		return 2
	}
	ctx := cliutil.SignalContext()
	for _, p := range wanted {
		b.say("%s …", p.name)
		if err := p.run(b, ctx); err != nil {
			if ctx.Err() != nil {
				return 130
			}
			b.report.Skipped = append(b.report.Skipped, fmt.Sprintf("%s: %v", p.name, err))
		}
	}
	b.report.Machine.LoadAfter = load()
	if err := b.report.print(os.Stdout, *output); err != nil {
		fmt.Fprintln(os.Stderr, "bench-sched:", err)
		return 1
	}
	if len(b.report.Skipped) > 0 {
		return 1
	}
	return 0
}

func names() string {
	var out []string
	for _, p := range parts {
		out = append(out, p.name)
	}
	return strings.Join(out, ", ")
}

// choose checks the flags.
func choose(only, output string) ([]part, error) {
	if output != "table" && output != "json" {
		return nil, fmt.Errorf("-o %s: must be table or json", output)
	}
	if flag.NArg() > 0 {
		return nil, fmt.Errorf("takes no arguments, got %q", flag.Args())
	}
	if only == "" {
		return parts, nil
	}
	var out []part
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %s: unknown part %q, there are %s", only, name, names())
		}
		out = append(out, parts[i])
	}
	return out, nil
}

// say tells on the error stream what is going on.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (b *bench) add(r Row) { b.report.Rows = append(b.report.Rows, r) }

package whypending

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lj.aliyun.com/kit/pkg/kube"
)

// fleet is 5,000 nodes of 8 cards, half of them held whole and the others by
// two shares each, and a pod that fits nowhere.
func fleet(nodes int) pendingCase {
	var c pendingCase
	for i := range nodes {
		n := nodeBrief{Name: fmt.Sprintf("n%04d", i), Cards: "8 A10", Hold: map[string]string{}, Cordoned: i%97 == 0, NoLabel: i%53 == 0}
		for card := range 8 {
			if n.Hold[fmt.Sprint(card)] = "core 60 mem 20"; card < 4 {
				n.Hold[fmt.Sprint(card)] = "whole"
			}
		}
		c.Nodes = append(c.Nodes, n)
	}
	c.Pods = []podBrief{{Name: "p", Ask: "core 50 mem 8", CPU: "4"}}
	return c
}

// BenchmarkFleet is one question from a file: read is the reading of the file
// with 5,000 nodes and 40,000 pods, and the loop is everything after it.
func BenchmarkFleet(b *testing.B) {
	text := snapshotOf(b, fleet(5000))
	start := time.Now()
	s, err := kube.LoadSnapshot(strings.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	read := time.Since(start)
	cfg, _ := s.Config()
	b.ReportAllocs()
	for b.Loop() {
		p := New(s, cfg, caseNow)
		r, err := p.Explain(context.Background(), Target{"Pod", "default", "p"})
		if err != nil || r.TotalNodes != 5000 || r.Verdict != "WAIT" {
			b.Fatal(err, r)
		}
		p.Close()
	}
	b.ReportMetric(float64(read.Milliseconds()), "ms-read")
	b.ReportMetric(float64(len(text))/1e6, "MB-file")
}

package whypending

import (
	"fmt"
	"slices"
	"strings"

	"lj.aliyun.com/kit/pkg/core/explain"
)

// nodes tells the nearest nodes, card by card where cards are short.
func (v view) nodes(w *strings.Builder, r *explain.Report) {
	shown := r.Nodes
	if !v.wide && v.one == "" {
		shown = shown[:min(len(shown), nearestShown)]
	}
	shown = slices.DeleteFunc(slices.Clone(shown), func(n explain.NodeReport) bool { return n.Fits && v.one == "" && !v.wide })
	if len(shown) == 0 {
		return
	}
	fmt.Fprintln(w)
	if v.headers {
		fmt.Fprintf(w, "%-20s %-8s %s\n", "NEAREST", "", "IN THE WAY")
	}
	for _, n := range shown {
		v.node(w, n)
	}
}

func (v view) node(w *strings.Builder, n explain.NodeReport) {
	name := n.Name
	if n.Fits {
		fmt.Fprintf(w, "%-20s %-8s %s\n", esc(name), v.paint(n.Verdict), "fits")
	}
	for _, c := range n.Reasons {
		for _, line := range wrap(esc(string(c.Code)+": "+c.Message), width-30) {
			word := string(n.Verdict)
			if name == "" {
				word = ""
			}
			fmt.Fprintf(w, "%-20s %-8s %s\n", esc(name), word, line)
			name = ""
		}
	}
	if v.full() {
		for _, c := range n.Reasons {
			if strings.HasPrefix(c.Fix, "kubectl ") {
				fmt.Fprintf(w, "  %s\n", esc(c.Fix))
			}
		}
	}
	v.cards(w, n)
}

func (v view) full() bool { return v.wide || v.one != "" }

// cards tells a node card by card; neighbours that say the same share a line.
func (v view) cards(w *strings.Builder, n explain.NodeReport) {
	lines := 0
	for i := 0; i < len(n.Cards); {
		text := v.cardText(n.Cards[i])
		j := i + 1
		for j < len(n.Cards) && v.cardText(n.Cards[j]) == text {
			j++
		}
		if lines == cardsShown && !v.full() {
			fmt.Fprintf(w, "  and %d more cards: --node %s\n", len(n.Cards)-i, esc(n.Name))
			return
		}
		which := fmt.Sprintf("card %d", n.Cards[i].Index)
		if j > i+1 {
			which = fmt.Sprintf("cards %d-%d", n.Cards[i].Index, n.Cards[j-1].Index)
		}
		line := fmt.Sprintf("  %-10s %s", which, text)
		if !v.full() {
			line = cut(line, width)
		}
		fmt.Fprintln(w, esc(line))
		lines++
		i = j
	}
}

func (v view) cardText(c explain.Card) string {
	s := c.Model
	if c.MIG {
		s += " MIG"
	}
	if c.Fits {
		s += ": could serve it"
	} else {
		s += ": " + c.Message
	}
	for i, h := range c.Holders {
		if i == 2 && !v.full() {
			s += fmt.Sprintf(", %d more", len(c.Holders)-i)
			break
		}
		about := strings.Trim(h.Held+", "+h.Note, ", ")
		switch {
		case strings.Contains(c.Message, h.Pod) && about != "":
			s += " (" + about + ")"
		case strings.Contains(c.Message, h.Pod):
		case about != "":
			s += " · " + h.Pod + " (" + about + ")"
		default:
			s += " · " + h.Pod
		}
	}
	return s
}

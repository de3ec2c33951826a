package jobs

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/render"
)

// List is what -o json and yaml print: one document, whatever the number.
type List struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []Row  `json:"items"`
	// NotRead are lists that could not be read, so that rows may be missing.
	NotRead []string `json:"notRead,omitempty"`
}

// maxReason keeps rows of the plain table on one line of a terminal.
const maxReason = 60

// printRows writes the rows in a format of the command.
func printRows(w io.Writer, l List, o *options, now time.Time) error {
	switch o.output {
	case "json", "yaml":
		if l.Items == nil {
			l.Items = []Row{}
		}
		return cliutil.PrintObject(w, o.output, l)
	case "name":
		for i := range l.Items {
			if _, err := fmt.Fprintln(w, l.Items[i].Ref()); err != nil {
				return err
			}
		}
		return nil
	}
	return tableOf(l.Items, o.allNamespaces, o.output == "wide", now).Print(w, o.noHeaders)
}

func tableOf(rows []Row, namespaces, wide bool, now time.Time) *render.Table {
	t := &render.Table{Headers: []string{"NAME", "KIND", "STATUS", "PODS", "CARDS", "REASON", "AGE"}}
	if wide {
		t.Headers = append(t.Headers, "REQUEST", "NODES", "MESSAGE")
	}
	if namespaces {
		t.Headers = append([]string{"NAMESPACE"}, t.Headers...)
	}
	for i := range rows {
		r := &rows[i]
		cells := []string{r.Name, r.Kind, string(r.Status), fmt.Sprintf("%d/%d", r.PodsRunning, r.PodsWanted), cardsCell(r), reasonCell(r), render.Age(now, r.Created.Time)}
		if wide {
			cells = append(cells, r.Request, strings.Join(r.Nodes, ","), r.Message)
		}
		if namespaces {
			cells = append([]string{r.Namespace}, cells...)
		}
		t.Row(cells...)
	}
	return t
}

// cardsCell is "8/8 gpu-1", or "56/56 gpu-1,+6".
func cardsCell(r *Row) string {
	s := fmt.Sprintf("%d/%d", r.CardsGranted, r.CardsAsked)
	if r.CardsUnknown > 0 {
		s += "?"
	}
	switch n := len(r.Nodes); {
	case n == 0:
		return s
	case n == 1:
		return s + " " + r.Nodes[0]
	default:
		return fmt.Sprintf("%s %s,+%d", s, r.Nodes[0], n-1)
	}
}

func reasonCell(r *Row) string {
	text := r.Reason
	if r.Status == Pending && r.Message != "" {
		text = mainRefusal(r.Message)
	}
	return render.Short(render.Cell(text), maxReason)
}

// mainRefusal takes from a scheduler's "0/15 nodes are available: 1 x, 8 y: z.
// closest is node n, y: w" what is short on the nearest node, "y: w", or else
// the refusal of most nodes, "8/15 y: z"; other messages stay as they are.
// Most nodes are often only the ones that the pod does not select.
func mainRefusal(msg string) string {
	if _, near, ok := strings.Cut(msg, " closest is node "); ok {
		near, _, _ = strings.Cut(near, ". ")
		if _, why, ok := strings.Cut(near, ", "); ok && why != "" {
			return strings.TrimSuffix(why, ".")
		}
	}
	head, rest, ok := strings.Cut(msg, " nodes are available: ")
	_, total, slash := strings.Cut(head, "/")
	if !ok || !slash {
		return msg
	}
	rest, _, _ = strings.Cut(rest, ". ")
	best, most := "", 0
	for _, part := range strings.Split(strings.TrimSuffix(rest, "."), ", ") {
		count, why, ok := strings.Cut(part, " ")
		n, err := strconv.Atoi(count)
		if ok && err == nil && n > most {
			best, most = why, n
		}
	}
	if most == 0 {
		return msg
	}
	return fmt.Sprintf("%d/%s %s", most, total, best)
}

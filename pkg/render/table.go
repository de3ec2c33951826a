package render

import (
	"bytes"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Table is rows under headers, in the order in which they were added.
type Table struct {
	// Headers are printed as they are; nil prints none.
	Headers []string
	rows    [][]string
}

// Row adds a row. A cell that is empty is printed as "-", so that columns can
// be told apart; missing cells count as empty, cells without a header are
// a mistake of the caller and are dropped.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.Headers))
	for i := range row {
		if i < len(cells) {
			row[i] = Cell(cells[i])
		}
		if row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Print writes the table; without a row it writes nothing.
func (t *Table) Print(w io.Writer, noHeaders bool) error {
	if len(t.rows) == 0 {
		return nil
	}
	var buf bytes.Buffer
	tab := tablewriter.NewTable(&buf,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone, Symbols: tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithHeaderAlignment(tw.AlignLeft), tablewriter.WithRowAlignment(tw.AlignLeft),
		// The defaults spell nvidia.com/gpu as "NVIDIA . COM / GPU", cut long
		// headers, take indents off, and misdraw under Chinese locales.
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone), tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off), tablewriter.WithEastAsian(tw.Off),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: "   ", Overwrite: true}),
	)
	if !noHeaders {
		tab.Header(t.Headers)
	}
	for _, r := range t.rows {
		if err := tab.Append(append([]string(nil), r...)); err != nil {
			return err
		}
	}
	if err := tab.Render(); err != nil {
		return err
	}
	return trimLines(w, buf.String())
}

// trimLines takes off the padding of the last column.
func trimLines(w io.Writer, text string) error {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

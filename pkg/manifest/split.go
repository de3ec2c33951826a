package manifest

import (
	"bytes"
)

// chunk is the text of one document and the line it begins on.
type chunk struct {
	text []byte
	line int
}

// split cuts a file at its document markers, as kubectl's reader does: a line
// that begins with --- and holds nothing else but a comment, or content that
// stays with the new document. Chunks without content are dropped.
func split(data []byte) []chunk {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if looksJSON(data) {
		return splitJSON(data)
	}
	var out []chunk
	start, startLine, line := 0, 1, 1
	flush := func(end, next, nextLine int) {
		if text := data[start:end]; hasContent(text) {
			out = append(out, chunk{text, startLine})
		}
		start, startLine = next, nextLine
	}
	for at := 0; at < len(data); {
		end := at + bytes.IndexByte(data[at:], '\n') + 1
		if end == at {
			end = len(data)
		}
		text := data[at:end]
		switch {
		case marker(text, "---") && hasContent(text[3:]):
			flush(at, at, line) // the marker line belongs to the new document
		case marker(text, "---"), marker(text, "..."):
			flush(at, end, line+1)
		}
		at = end
		line++
	}
	flush(len(data), len(data), line)
	return out
}

// marker tells whether a line is the mark, alone or before a blank.
func marker(line []byte, mark string) bool {
	if !bytes.HasPrefix(line, []byte(mark)) {
		return false
	}
	return len(line) == len(mark) || bytes.IndexByte([]byte(" \t\r\n"), line[len(mark)]) >= 0
}

// hasContent tells whether there is more than blanks, comments, directives
// and document markers.
func hasContent(text []byte) bool {
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("---")) {
			return true
		}
	}
	return false
}

// looksJSON tells whether the first sign is an opening brace, which is when
// kubectl reads a stream as JSON.
func looksJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}

// splitJSON cuts a stream of JSON values. Text that is not JSON stays in one
// piece: it may be YAML in flow style.
func splitJSON(data []byte) []chunk {
	var out []chunk
	rest, line := data, 1
	for hasContent(rest) {
		n, ok := valueLength(rest)
		if !ok {
			if len(out) == 0 && bytes.Contains(data, []byte("\n---")) {
				return splitMarked(data)
			}
			return append(out, chunk{rest, line})
		}
		out = append(out, chunk{rest[:n], line})
		line += bytes.Count(rest[:n], []byte("\n"))
		rest = rest[n:]
		// A marker may stand between JSON values.
		trimmed := bytes.TrimLeft(rest, " \t\r\n")
		if bytes.HasPrefix(trimmed, []byte("---")) {
			line += bytes.Count(rest[:len(rest)-len(trimmed)], []byte("\n"))
			rest = trimmed[3:]
		}
		if !looksJSON(rest) && hasContent(rest) {
			for _, c := range splitMarked(rest) {
				out = append(out, chunk{c.text, c.line + line - 1})
			}
			return out
		}
	}
	return out
}

// splitMarked is split for text that begins with a brace and is YAML.
func splitMarked(data []byte) []chunk {
	const shield = "---\n"
	out := split(append([]byte(shield), data...))
	for i := range out {
		out[i].line--
	}
	return out
}

package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// scanner cuts a stream of JSON into raw values without building them, so
// that a big file is read once and decoded in parallel. It finds where a
// value ends; whether the value is sound, its decoder says.
type scanner struct {
	r *bufio.Reader
}

func newScanner(r *bufio.Reader) *scanner { return &scanner{r: r} }

var errCut = errors.New("the file ends in the middle")

// next returns the next byte that is no blank, without taking it.
func (s *scanner) next() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c, s.r.UnreadByte()
	}
}

// take wants this byte next.
func (s *scanner) take(want byte) error {
	c, err := s.next()
	if err == io.EOF {
		return errCut
	}
	if err != nil {
		return err
	}
	if c != want {
		return fmt.Errorf("not valid JSON: %q where %q belongs", c, want)
	}
	_, err = s.r.Discard(1)
	return err
}

// more tells whether a list or mapping that close ends goes on; first is true
// before its first element. At the end it takes the closing byte.
func (s *scanner) more(closing byte, first bool) (bool, error) {
	c, err := s.next()
	if err == io.EOF {
		return false, errCut
	}
	if err != nil {
		return false, err
	}
	if c == closing {
		_, err = s.r.Discard(1)
		return false, err
	}
	if first {
		return true, nil
	}
	return true, s.take(',')
}

// key reads a key and its colon.
func (s *scanner) key() (string, error) {
	raw, err := s.value()
	if err != nil {
		return "", err
	}
	var k string
	if err := json.Unmarshal(raw, &k); err != nil {
		return "", errors.New("not valid JSON: a key is no text")
	}
	return k, s.take(':')
}

// value reads one value whole.
func (s *scanner) value() ([]byte, error) {
	c, err := s.next()
	if err == io.EOF {
		return nil, errCut
	}
	if err != nil {
		return nil, err
	}
	if c != '{' && c != '[' && c != '"' {
		return s.scalar()
	}
	var out []byte
	st := state{}
	for {
		if _, err := s.r.Peek(1); err != nil {
			if err == io.EOF {
				err = errCut
			}
			return nil, err
		}
		buf, _ := s.r.Peek(s.r.Buffered())
		n, done := st.scan(buf)
		out = append(out, buf[:n]...)
		if _, err := s.r.Discard(n); err != nil {
			return nil, err
		}
		if done {
			return out, nil
		}
		if len(out) > maxItemBytes {
			return nil, fmt.Errorf("an object of more than %d MiB, larger than any in a cluster", maxItemBytes>>20)
		}
	}
}

// scalar reads a number, true, false or null.
func (s *scanner) scalar() ([]byte, error) {
	var out []byte
	for {
		c, err := s.r.ReadByte()
		if err == io.EOF && len(out) > 0 {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte([]byte(" \t\r\n,]}:"), c) >= 0 {
			return out, s.r.UnreadByte()
		}
		if out = append(out, c); len(out) > 64 {
			return nil, errors.New("not valid JSON")
		}
	}
}

// state is how deep in a value the scan is.
type state struct {
	depth     int
	inText    bool
	backslash bool
}

// scan goes over the bytes up to the end of the value, or over all of them.
func (st *state) scan(b []byte) (int, bool) {
	for i := 0; i < len(b); i++ {
		if st.inText {
			if st.backslash {
				st.backslash = false
				continue
			}
			j := bytes.IndexAny(b[i:], "\"\\")
			if j < 0 {
				return len(b), false
			}
			i += j
			if b[i] == '\\' {
				st.backslash = true
				continue
			}
			st.inText = false
			if st.depth == 0 {
				return i + 1, true
			}
			continue
		}
		switch b[i] {
		case '"':
			st.inText = true
		case '{', '[':
			st.depth++
		case '}', ']':
			if st.depth--; st.depth <= 0 {
				return i + 1, true
			}
		}
	}
	return len(b), false
}

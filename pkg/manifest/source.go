package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MaxFileBytes bounds one source. A larger file is not read at all.
const MaxFileBytes = 16 << 20

// ErrTooLarge is a source above MaxFileBytes.
var ErrTooLarge = errors.New("larger than 16 MiB")

// Stdin is the path that means standard input, and StdinName how it is shown.
const (
	Stdin     = "-"
	StdinName = "<stdin>"
)

// Source is one file as read. Err says why there is no Data.
type Source struct {
	Name string
	Data []byte
	Err  error
}

// Sources lists what the paths name, in the given order: a file is taken
// whatever its name, a folder gives its .json, .yaml and .yml files sorted by
// name, and those below it if recursive. Nothing is read yet, so that only
// one file at a time is in memory; read each name with Read.
func Sources(paths []string, recursive bool) []Source {
	var out []Source
	for _, p := range paths {
		if p == Stdin {
			out = append(out, Source{Name: Stdin})
			continue
		}
		info, err := os.Stat(p)
		switch {
		case err != nil:
			out = append(out, Source{Name: p, Err: plainError(err)})
		case info.IsDir():
			out = append(out, folder(p, recursive)...)
		default:
			out = append(out, Source{Name: p})
		}
	}
	return out
}

func folder(root string, recursive bool) []Source {
	var out []Source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			out = append(out, Source{Name: p, Err: plainError(err)})
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			if p != root && !recursive {
				return fs.SkipDir
			}
		case manifestName(p):
			out = append(out, Source{Name: p})
		}
		return nil
	})
	if err != nil {
		out = append(out, Source{Name: root, Err: plainError(err)})
	}
	return out
}

func manifestName(p string) bool {
	switch strings.ToLower(filepath.Ext(p)) {
	case ".json", ".yaml", ".yml":
		return true
	}
	return false
}

// Read reads one source of at most MaxFileBytes.
func Read(s Source, stdin io.Reader) Source {
	if s.Err != nil {
		return s
	}
	if s.Name == Stdin {
		s.Name = StdinName
		s.Data, s.Err = readAll(stdin)
		return s
	}
	f, err := os.Open(s.Name)
	if err != nil {
		s.Err = plainError(err)
		return s
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > MaxFileBytes {
		s.Err = ErrTooLarge
		return s
	}
	s.Data, s.Err = readAll(f)
	return s
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return nil, plainError(err)
	}
	if len(data) > MaxFileBytes {
		return nil, ErrTooLarge
	}
	return data, nil
}

// plainError drops the path, which is shown beside the error anyway.
func plainError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", pe.Op, pe.Err)
	}
	return err
}

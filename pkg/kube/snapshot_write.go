package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"
)

// Format is a way to write a snapshot.
type Format string

// The formats. JSON is written and read many times faster.
const (
	JSON Format = "json"
	YAML Format = "yaml"
)

// snapshotHead is the document without its items.
type snapshotHead struct {
	APIVersion    string    `json:"apiVersion"`
	Kind          string    `json:"kind"`
	Taken         string    `json:"taken,omitempty"` // RFC 3339
	ServerVersion string    `json:"serverVersion,omitempty"`
	Missing       []Missing `json:"missing,omitempty"`
	Absent        []string  `json:"absent,omitempty"`
}

func (s *Snapshot) head() snapshotHead {
	h := snapshotHead{APIVersion: SnapshotAPIVersion, Kind: SnapshotKind, ServerVersion: s.ServerVersion,
		Missing: s.Missing, Absent: s.Absent}
	if !s.Taken.IsZero() {
		h.Taken = s.Taken.UTC().Format(time.RFC3339)
	}
	return h
}

// Write writes the snapshot as one document, an object to a line in JSON. The
// same snapshot gives the same bytes. Nothing secret gets out even if the
// caller put it in.
func (s *Snapshot) Write(w io.Writer, f Format) error {
	bw := bufio.NewWriterSize(w, 1<<20)
	var err error
	switch f {
	case JSON:
		err = s.writeJSON(bw)
	case YAML:
		err = s.writeYAML(bw)
	default:
		return fmt.Errorf("snapshot format %q: must be json or yaml", f)
	}
	if err != nil {
		return err
	}
	return bw.Flush()
}

func (s *Snapshot) writeJSON(w *bufio.Writer) error {
	head, err := json.Marshal(s.head())
	if err != nil {
		return err
	}
	if _, err := w.Write(bytes.TrimSuffix(head, []byte("}"))); err != nil {
		return err
	}
	sep := ",\"items\":[\n"
	err = s.items(func(o object) error {
		b, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := w.WriteString(sep); err != nil {
			return err
		}
		sep = ",\n"
		_, err = w.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	if sep != ",\n" {
		_, err = w.WriteString(sep)
	}
	if err == nil {
		_, err = w.WriteString("\n]}\n")
	}
	return err
}

func (s *Snapshot) writeYAML(w *bufio.Writer) error {
	head, err := yaml.Marshal(s.head())
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	n := 0
	err = s.items(func(o object) error {
		if n == 0 {
			if _, err := w.WriteString("items:\n"); err != nil {
				return err
			}
		}
		n++
		b, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		b = bytes.ReplaceAll(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"), []byte("\n  "))
		_, err = fmt.Fprintf(w, "- %s\n", b)
		return err
	})
	if err == nil && n == 0 {
		_, err = w.WriteString("items: []\n")
	}
	return err
}

// items visits every object, stripped and with its kind.
func (s *Snapshot) items(visit func(object) error) error {
	var err error
	for i := range listings {
		l := &listings[i]
		l.each(s, func(o object) {
			if err != nil {
				return
			}
			if !s.clean {
				o = o.DeepCopyObject().(object)
				o.GetObjectKind().SetGroupVersionKind(l.gvk)
				strip(o)
			}
			err = visit(o)
		})
	}
	return err
}

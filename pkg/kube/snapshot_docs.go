package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// readJSON reads documents up to the end of the stream.
func (l *loader) readJSON(s *scanner) error {
	for {
		if _, err := s.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := l.document(s); err != nil {
			return err
		}
	}
}

// document reads one mapping: a list of objects, or an object.
func (l *loader) document(s *scanner) error {
	if err := s.take('{'); err != nil {
		return err
	}
	doc := map[string]json.RawMessage{}
	isList := false
	for first := true; ; first = false {
		more, err := s.more('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		k, err := s.key()
		if err != nil {
			return err
		}
		if k == "items" {
			isList = true
			if err := l.list(s, doc); err != nil {
				return err
			}
			continue
		}
		raw, err := s.value()
		if err != nil {
			return err
		}
		doc[k] = raw
	}
	return l.ended(doc, isList)
}

// list sends the elements of items to the decoders.
func (l *loader) list(s *scanner, doc map[string]json.RawMessage) error {
	c, err := s.next()
	if err != nil {
		return errCut
	}
	if c != '[' { // "items": null
		_, err := s.value()
		return err
	}
	if err := s.take('['); err != nil {
		return err
	}
	api, kind := plain(doc["apiVersion"]), listKind(plain(doc["kind"]))
	for first := true; ; first = false {
		more, err := s.more(']', first)
		if err != nil || !more {
			return err
		}
		raw, err := s.value()
		if err != nil {
			return err
		}
		l.send(raw, api, kind)
	}
}

// ended looks at what a document has besides items.
func (l *loader) ended(doc map[string]json.RawMessage, isList bool) error {
	kind := plain(doc["kind"])
	switch {
	case kind == SnapshotKind:
		if v := plain(doc["apiVersion"]); v != SnapshotAPIVersion {
			return fmt.Errorf("written as %s by another version of ljctl; this one reads %s", v, SnapshotAPIVersion)
		}
		raw, err := json.Marshal(doc)
		if err == nil {
			err = json.Unmarshal(raw, &l.head)
		}
		if err != nil {
			return errors.New("its head is broken")
		}
		l.own = true
		return nil
	case isList:
		return nil
	case kind == "":
		return errors.New("no kind: neither a snapshot nor objects of a cluster")
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return errors.New("not valid JSON")
	}
	l.send(raw, "", "")
	return nil
}

func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// readYAML reads documents that are apart by "---".
func (l *loader) readYAML(br *bufio.Reader) error {
	data, err := io.ReadAll(io.LimitReader(br, maxYAMLBytes+1))
	if err != nil {
		return err
	}
	if len(data) > maxYAMLBytes {
		return fmt.Errorf("more than %d MiB of YAML; take it as JSON: ljctl snapshot -o json", maxYAMLBytes>>20)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return errors.New("neither JSON nor YAML: it has NUL bytes")
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not valid YAML: %s", yamlText(err))
		}
		raw, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return fmt.Errorf("neither JSON nor valid YAML: %s", yamlText(err))
		}
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		if raw[0] != '{' {
			return errors.New("neither a snapshot nor objects of a cluster")
		}
		if err := l.document(newScanner(bufio.NewReader(bytes.NewReader(raw)))); err != nil {
			return err
		}
	}
}

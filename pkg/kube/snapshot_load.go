package kube

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// Limits of what LoadSnapshot reads. A cluster of 5,000 nodes and 40,000 pods
// is about 150 MB as ljctl writes it, and 600 MB as kubectl does.
const (
	maxSnapshotBytes = 4 << 30
	maxYAMLBytes     = 64 << 20
	maxItemBytes     = 16 << 20 // an API object has at most about 2 MiB
)

// LoadSnapshot reads what Snapshot.Write wrote, and also what "kubectl get
// nodes,pods -A -o json" (or yaml) prints, alone or several documents in a
// row, plain or gzipped. Objects of other kinds are passed over.
//
// Lists that the file does not have are in Missing. On broken input it
// returns one error of one sentence, and no snapshot.
func LoadSnapshot(r io.Reader) (*Snapshot, error) {
	br := bufio.NewReaderSize(io.LimitReader(r, maxSnapshotBytes+1), 1<<20)
	if magic, err := br.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("snapshot: not valid gzip: %w", err)
		}
		br = bufio.NewReaderSize(io.LimitReader(zr, maxSnapshotBytes+1), 1<<20)
	}
	if bom, err := br.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		_, _ = br.Discard(3)
	}
	l := newLoader()
	c, err := newScanner(br).next()
	switch {
	case err == io.EOF:
		return nil, errors.New("snapshot: the file is empty")
	case err != nil:
		return nil, fmt.Errorf("snapshot: %w", err)
	case c == '{':
		err = l.readJSON(newScanner(br))
	default:
		err = l.readYAML(br)
	}
	return l.finish(err)
}

// loader takes documents apart and decodes their objects in parallel.
type loader struct {
	head  snapshotHead
	own   bool // our own document was among them
	items chan item
	count int
	wg    sync.WaitGroup

	mu   sync.Mutex
	got  []decoded
	fail *decoded // the first in the file's order
}

type item struct {
	index int
	raw   []byte
	kind  string // of the list, where items have no kind of their own
	api   string
}

type decoded struct {
	index int
	l     *listing
	obj   object
	err   error
}

func newLoader() *loader {
	l := &loader{items: make(chan item, 256)}
	for range runtime.GOMAXPROCS(0) {
		l.wg.Go(func() {
			for it := range l.items {
				l.decode(it)
			}
		})
	}
	return l
}

func (l *loader) send(raw []byte, api, kind string) {
	l.items <- item{l.count, raw, kind, api}
	l.count++
}

// finish waits for the decoders and puts the snapshot together.
func (l *loader) finish(err error) (*Snapshot, error) {
	close(l.items)
	l.wg.Wait()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if l.fail != nil {
		return nil, fmt.Errorf("snapshot: object %d: %w", l.fail.index+1, l.fail.err)
	}
	if len(l.got) == 0 && !l.own {
		return nil, errors.New("snapshot: no objects of a cluster in it; write one with: ljctl snapshot > FILE")
	}
	s := &Snapshot{ServerVersion: l.head.ServerVersion, Missing: l.head.Missing, Absent: l.head.Absent, clean: true}
	s.Taken, _ = time.Parse(time.RFC3339, l.head.Taken)
	ordered := make([]*decoded, l.count)
	for i := range l.got {
		ordered[l.got[i].index] = &l.got[i]
	}
	for _, d := range ordered {
		if d != nil {
			d.l.add(s, d.obj)
		}
	}
	for i := range listings {
		li := &listings[i]
		li.tidy(s)
		if !l.own && !s.any(li) {
			s.Missing = append(s.Missing, Missing{Resource: li.resource, Why: "not in the file"})
		}
	}
	s.sortMissing()
	return s, nil
}

// any tells whether the list has an object.
func (s *Snapshot) any(l *listing) bool {
	found := false
	l.each(s, func(object) { found = true })
	return found
}

func (l *loader) decode(it item) {
	d := decoded{index: it.index}
	d.l, d.obj, d.err = decodeItem(it)
	if d.l == nil && d.err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case d.err == nil:
		l.got = append(l.got, d)
	case l.fail == nil || d.index < l.fail.index:
		l.fail = &d
	}
}

// decodeItem returns nothing for a kind that snapshots do not have.
func decodeItem(it item) (*listing, object, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(it.raw, &head); err != nil {
		return nil, nil, errors.New("not valid JSON, or no object")
	}
	if head.Kind == "" {
		head.APIVersion, head.Kind = it.api, it.kind
	}
	if head.Kind == "" {
		return nil, nil, errors.New("it has no kind")
	}
	l := listingOf(head.APIVersion, head.Kind)
	if l == nil {
		return nil, nil, nil
	}
	o := l.fresh()
	var err error
	if u, ok := o.(*unstructured.Unstructured); ok {
		err = kjson.UnmarshalCaseSensitivePreserveInts(it.raw, &u.Object)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(it.raw, o)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s", head.Kind, firstLine(err))
	}
	if o.GetName() == "" {
		return nil, nil, fmt.Errorf("%s without a name", head.Kind)
	}
	o.GetObjectKind().SetGroupVersionKind(l.gvk)
	strip(o)
	return l, o, nil
}

// listKind is the kind of the items of a list such as PodList.
func listKind(kind string) string {
	if kind == "List" {
		return ""
	}
	if k, ok := strings.CutSuffix(kind, "List"); ok {
		return k
	}
	return ""
}

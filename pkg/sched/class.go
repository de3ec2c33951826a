package sched

import (
	"strconv"

	"lj.aliyun.com/kit/pkg/core/request"
)

// classOf interns the class of a request.
func (s *State) classOf(r *request.Request) *class {
	key := classKey(r)
	s.mu.RLock()
	c := s.classes[key]
	s.mu.RUnlock()
	if c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.classes[key]; c != nil {
		return c
	}
	if len(s.classes) >= maxClasses {
		clear(s.classes)
	}
	c = &class{key: key}
	s.classes[key] = c
	return c
}

// classKey has everything of a request that a node's answer can depend on,
// and no name. The unit matters: a node with another unit refuses.
func classKey(r *request.Request) string {
	b := make([]byte, 0, 64)
	b = append(b, r.Unit...)
	num := func(v int64) {
		b = append(b, ' ')
		b = strconv.AppendInt(b, v, 10)
	}
	num(int64(r.Phases))
	b = strconv.AppendBool(append(b, ' '), r.RDMA)
	b = append(append(b, ' '), r.NodePolicy...)
	b = append(append(b, ' '), r.CardPolicy...)
	for _, res := range r.Resources {
		b = append(append(b, ' '), res...)
	}
	for i := range r.Asks {
		a := &r.Asks[i]
		b = append(append(b, '|'), a.Mode...)
		b = strconv.AppendBool(append(b, ' '), a.NVIDIAOnly)
		for _, v := range []int64{int64(a.Kind), int64(a.Count), a.Core, a.MemMiB, int64(a.Slices), int64(a.From), int64(a.To)} {
			num(v)
		}
	}
	return string(b)
}

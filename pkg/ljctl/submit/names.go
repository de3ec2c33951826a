package submit

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// checkName refuses names that the API server takes and that break later,
// when controllers add their parts: the longest is the host name of the last
// pod. It returns nil for a good name.
func checkName(s spec) *reason.Reason {
	name, random := s.name, ""
	if name == "" {
		// The server adds five characters to a prefix.
		name, random = s.generate, "xxxxx"
	}
	problems := validation.IsDNS1123Label(name + random)
	if s.kind == kindJobSet {
		problems = validation.IsDNS1035Label(name + random)
	}
	longest := name + random + suffix(s)
	if tooLong := len(longest) - validation.DNS1123LabelMaxLength; tooLong > 0 {
		return &reason.Reason{Code: "name-too-long", Device: name, Want: int64(len(longest)), Free: int64(tooLong),
			Total: int64(validation.DNS1123LabelMaxLength), Detail: []string{longest}}
	}
	if len(problems) > 0 {
		return &reason.Reason{Code: "name-not-dns-label", Device: name, Detail: []string{strings.Join(problems, "; ")}}
	}
	return nil
}

// suffix is what is added to the name to make the longest name of a pod.
func suffix(s spec) string {
	last := max(1, s.workers) - 1
	switch {
	case s.kind == kindJobSet:
		return fmt.Sprintf("-%s-0-%d-xxxxx", role, last)
	case s.kind == kindJob && last > 0:
		return fmt.Sprintf("-%d", last) // the host name of an indexed pod
	}
	return ""
}

package reason

// Code is a reason code: a kebab-case slug of the closed list in catalog.go.
type Code string

// Cure says what, if anything, makes a refusal pass.
type Cure string

const (
	// CureRelease passes when pods on the node end or are preempted.
	CureRelease Cure = "release"
	// CureSelf passes by itself without any pod ending.
	CureSelf Cure = "self"
	// CureUser needs a change of the request.
	CureUser Cure = "user"
	// CureAdmin needs an act on the node or the cluster.
	CureAdmin Cure = "admin"
)

// Reason is one refusal with its numbers. Unused numbers are 0; Unit names
// what they count ("cards", "%", "MiB", "slices").
type Reason struct {
	Code   Code     `json:"code"`
	Want   int64    `json:"want,omitempty"`
	Free   int64    `json:"free,omitempty"`
	Total  int64    `json:"total,omitempty"`
	Unit   string   `json:"unit,omitempty"`
	Device string   `json:"device,omitempty"` // card, resource, key or model
	Detail []string `json:"detail,omitempty"` // values as found: label text, holders
}

// Info is what the closed list knows about a code.
type Info struct {
	Code    Code
	Verdict Verdict // the verdict it causes when it decides alone
	Cure    Cure
	Text    string // the clause for people; {want}, {free}, {total}, {unit}, {device}, {detail} are filled in
	Meaning string // one sentence for the manual
	Fix     string // the next step, one sentence; filled in as Text
}

// Lookup finds a code in the closed list.
func Lookup(c Code) (Info, bool) {
	i, ok := byCode[c]
	return i, ok
}

// Codes lists the closed list in its documented order.
func Codes() []Info { return append([]Info(nil), catalog...) }

// CureOf is the cure of a code; a code that is not in the list needs an admin.
func CureOf(c Code) Cure {
	if i, ok := byCode[c]; ok {
		return i.Cure
	}
	return CureAdmin
}

var byCode = func() map[Code]Info {
	m := make(map[Code]Info, len(catalog))
	for _, i := range catalog {
		m[i.Code] = i
	}
	return m
}()

package explain

import "lj.aliyun.com/kit/pkg/core/reason"

// The versioned document of why-pending.
const (
	APIVersion = "ljctl.lj.aliyun.com/v1"
	Kind       = "PendingReport"
)

// Fit says whether waiting helps.
type Fit string

// The fits. AfterRelease: pods that end by themselves hold what is short.
// EmptyOnly: pods that run for ever hold it. Never: not even an empty cluster
// would take the pod as it is and as the nodes are.
const (
	FitNow          Fit = "now"
	FitAfterRelease Fit = "after-release"
	FitEmptyOnly    Fit = "empty-only"
	FitNever        Fit = "never"
	FitUnknown      Fit = "unknown"
)

// Fits lists every Fit.
func Fits() []Fit { return []Fit{FitNow, FitAfterRelease, FitEmptyOnly, FitNever, FitUnknown} }

// Report is the answer; its text form is a rendering of it.
type Report struct {
	APIVersion  string         `json:"apiVersion"`
	Kind        string         `json:"kind"`
	GeneratedAt string         `json:"generatedAt"` // RFC 3339: when the picture was taken
	Target      Target         `json:"target"`
	Verdict     reason.Verdict `json:"verdict"`
	Code        reason.Code    `json:"code"`
	Message     string         `json:"message"`
	Fit         Fit            `json:"fit"`
	// Reasons are all causes that hold now, each once, the one that decides
	// first.
	Reasons []Reason `json:"reasons"`
	Request *Request `json:"request,omitempty"`
	// Checks is the elimination table. The Left of the last row are the nodes
	// that fit; each row's loss adds up to Nodes.
	Checks []Check `json:"checks,omitempty"`
	// RuledOut counts each node once, under its first cause; with the nodes
	// that fit the counts add up to TotalNodes.
	RuledOut   []Count `json:"ruledOut,omitempty"`
	TotalNodes int     `json:"totalNodes"`
	FitNodes   int     `json:"fitNodes"`
	// Nodes are nearest first. Cards are there for the nearest MaxCardNodes.
	Nodes       []NodeReport `json:"nodes,omitempty"`
	Suggestions []Suggestion `json:"suggestions,omitempty"`
	Scheduler   *Said        `json:"scheduler,omitempty"`
	NotChecked  []NotChecked `json:"notChecked,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
}

// MaxCardNodes bounds the nodes that are told card by card.
const MaxCardNodes = 64

// Target is what was asked about.
type Target struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Phase     string `json:"phase,omitempty"`
	Since     string `json:"since,omitempty"` // RFC 3339: creation
	// Pod is the pod that stands for the target's waiting pods, Waiting how
	// many they are, of Pods.
	Pod           string `json:"pod,omitempty"`
	Waiting       int    `json:"waiting,omitempty"`
	Pods          int    `json:"pods,omitempty"`
	SchedulerName string `json:"schedulerName,omitempty"`
	Priority      int32  `json:"priority,omitempty"`
}

// Reason is one cause in the report.
type Reason struct {
	reason.Reason
	Verdict reason.Verdict `json:"verdict"`
	Message string         `json:"message"`
	Fix     string         `json:"fix,omitempty"`
	// Nodes are the nodes that it rules out: how many, and the first by name.
	Nodes int      `json:"nodes,omitempty"`
	Names []string `json:"names,omitempty"`
}

// Request is what the pod asks for, as understood.
type Request struct {
	Containers []Ask  `json:"containers"`
	Cards      int    `json:"cards"` // different cards per pod, at its peak
	Pods       int    `json:"pods"`
	Replica    int    `json:"replica,omitempty"`
	RDMA       bool   `json:"rdma,omitempty"`
	Phases     int    `json:"phases"`
	Unit       string `json:"unit"`
	CPUMilli   int64  `json:"cpuMilli,omitempty"`
	MemoryMiB  int64  `json:"memoryMiB,omitempty"` // of the host
	Gang       int    `json:"gang,omitempty"`      // min-member
}

// Ask is one container's wish for cards.
type Ask struct {
	Container string `json:"container"`
	Init      bool   `json:"init,omitempty"`
	Mode      string `json:"mode"`
	Cards     int    `json:"cards"`
	Core      int64  `json:"core,omitempty"`   // percent of each
	MemMiB    int64  `json:"memMiB,omitempty"` // of each
	Slices    int    `json:"slices,omitempty"`
	NVIDIA    bool   `json:"nvidiaOnly,omitempty"`
}

// Check is a row of the elimination table.
type Check struct {
	ID    CheckID `json:"id"`
	Title string  `json:"title"`
	Pass  int     `json:"pass"`  // nodes that pass it alone
	Left  int     `json:"left"`  // nodes left after it and all before
	Total int     `json:"total"` // all nodes
	// Blocked are the first nodes by name that it takes away.
	Blocked []Blocked `json:"blocked,omitempty"`
}

// Blocked is a node that a check takes away.
type Blocked struct {
	Node string      `json:"node"`
	Code reason.Code `json:"code"`
}

// Count is how many nodes have this first cause.
type Count struct {
	Code    reason.Code    `json:"code"`
	Verdict reason.Verdict `json:"verdict"`
	Nodes   int            `json:"nodes"`
	Names   []string       `json:"names"` // the first by name
}

// NodeReport is one node.
type NodeReport struct {
	Name    string         `json:"name"`
	Fits    bool           `json:"fits"`
	Verdict reason.Verdict `json:"verdict"`
	Reasons []Reason       `json:"reasons,omitempty"`
	Cards   []Card         `json:"cards,omitempty"`
}

// Card is one card of a node.
type Card struct {
	Index    int      `json:"index"`
	UUID     string   `json:"uuid"`
	Model    string   `json:"model"`
	Fits     bool     `json:"fits"`
	Code     string   `json:"code,omitempty"`
	Message  string   `json:"message,omitempty"`
	CoreFree int64    `json:"coreFree"`
	MemFree  int64    `json:"memFreeMiB"`
	MIG      bool     `json:"mig,omitempty"`
	Holders  []Holder `json:"holders,omitempty"`
}

// Holder is a pod that holds some of a card.
type Holder struct {
	Pod   string `json:"pod"`
	Since string `json:"since,omitempty"` // RFC 3339: start
	Held  string `json:"held,omitempty"`  // since how long, for people
	Note  string `json:"note,omitempty"`  // "crash loop, 312 restarts"
	// Ends: the pod ends by itself.
	Ends bool `json:"ends"`
}

// Suggestion is a change that would make the pod run.
type Suggestion struct {
	Actor  string `json:"actor"` // you, admin, wait
	Change string `json:"change"`
	// Verified: the tool applied the change to the picture, and the pod fits
	// the nodes of FitsNodes.
	Verified  bool     `json:"verified"`
	FitsNodes []string `json:"fitsNodes,omitempty"`
	Nodes     int      `json:"nodes,omitempty"` // how many it fits
}

// Said is the scheduler's last word about the pod: a hint, not a proof.
type Said struct {
	Message  string `json:"message"`
	Count    int32  `json:"count"`
	LastSeen string `json:"lastSeen"`
	Note     string `json:"note,omitempty"`
}

// NotChecked is what could not be seen.
type NotChecked struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Decides: the answer could be another one if it were known.
	Decides bool `json:"decides,omitempty"`
}

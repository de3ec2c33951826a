package sched

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/kube"
)

// The model check: random operations on a small cluster with the real engine,
// and after each binding and each pause the question whether all is right.
// What was random follows from the seed; in which order the engine's
// goroutines run does not, so a seed that has failed may pass the next time.

var (
	seedFlag  = flag.Uint64("model.seed", 0, "run the model check on this seed only")
	traceFlag = flag.Bool("model.trace", false, "log each operation of the model check")
)

// amount is a number from the environment, or what is right for make test.
func amount(t *testing.T, key string, usual int) int {
	t.Helper()
	text := os.Getenv(key)
	if text == "" {
		if testing.Short() {
			return min(usual, max(2, usual/25))
		}
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: give a number from 1", key, text)
	}
	return n
}

// eachSeed runs f on seeds from 1 on, a few at a time: most of a run is
// waiting for the engine's goroutines.
func eachSeed(t *testing.T, seeds int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	if *seedFlag > 0 {
		f(t, *seedFlag)
		return
	}
	for s := uint64(1); s <= uint64(seeds); s++ {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}

// tries is how often a seed may fail by what depends on the moment. Goroutines
// of the engine run beside the operations, so that no two runs of a seed are
// the same; what is judged wrong once in many runs is most often the judge, who
// looked at a moment that the scheduler had not seen. What is wrong at any
// moment (double) fails at once.
const tries = 3

func TestModel(t *testing.T) {
	steps := amount(t, "LJ_STEPS", 1000)
	eachSeed(t, amount(t, "LJ_SEEDS", 50), func(t *testing.T, seed uint64) {
		for n := 1; ; n++ {
			why := attempt(t, func(t testing.TB) {
				m := newModel(t, seed)
				for m.step = 1; m.step <= steps; m.step++ {
					m.operate()
				}
				m.settle()
				t.Logf("%d steps, %v", steps, m.count)
			})
			switch {
			case why == "":
				return
			case n == tries || double(why):
				t.Fatalf("try %d: %s", n, why)
			}
			t.Logf("try %d: %s", n, why)
		}
	})
}

// double tells whether the judge found a card given to two, or more of one
// than there is.
func double(why string) bool {
	for _, s := range []string{"once more", "overlap", "compute given", "MiB given", "cut and shared"} {
		if strings.Contains(why, s) {
			return true
		}
	}
	return false
}

// attempt runs f to its end or its first failure, and says what that was.
func attempt(t testing.TB, f func(testing.TB)) string {
	a := &attempted{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.end()
		f(a)
	}()
	<-done
	return a.why
}

// attempted is a test whose failure is not yet that of the test around it.
type attempted struct {
	testing.TB
	why      string
	cleanups []func()
}

func (a *attempted) Fatalf(f string, args ...any) { a.fail(fmt.Sprintf(f, args...)) }
func (a *attempted) Fatal(args ...any)            { a.fail(fmt.Sprint(args...)) }
func (a *attempted) Errorf(f string, args ...any) { a.fail(fmt.Sprintf(f, args...)) }
func (a *attempted) Failed() bool                 { return a.why != "" }
func (a *attempted) Cleanup(f func())             { a.cleanups = append(a.cleanups, f) }

func (a *attempted) fail(why string) {
	a.why = why
	runtime.Goexit()
}

func (a *attempted) end() {
	for i := len(a.cleanups) - 1; i >= 0; i-- {
		a.cleanups[i]()
	}
}

// model is the cluster under random operations.
type model struct {
	*world
	t     testing.TB
	rnd   *rand.Rand
	step  int
	next  int            // number of the next object
	count map[string]int // of operations, and of what came out
	sets  []*jobSet
	lost  []string          // nodes that are away
	edits map[string]string // pods whose record was edited: what it was
	stray map[string]string // pods whose min-member was edited: what it was
	late  []string          // Jobs that have not counted a finished member yet
	// disturbed groups may be half placed: something happened to them while
	// they were being bound.
	disturbed map[types.NamespacedName]bool
	// torn groups lacked a member's label when a scheduler began.
	torn map[types.NamespacedName]bool
}

// jobSet is a set whose members come one by one.
type jobSet struct {
	name             string
	size, made, done int
	ask              limits
	priority         int32
	key              types.NamespacedName
}

func newModel(t testing.TB, seed uint64) *model {
	m := &model{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), count: map[string]int{}, edits: map[string]string{}, stray: map[string]string{},
		disturbed: map[types.NamespacedName]bool{}, torn: map[types.NamespacedName]bool{}}
	m.world = newWorld(t)
	m.conf.BackfillAgeSeconds = []int64{0, 20}[seed%2]
	for i := range 6 {
		m.api.put(m.node(fmt.Sprintf("n%d", i)))
	}
	m.run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d, step %d: again with -model.seed=%d -model.trace", seed, m.step, seed)
		}
	})
	return m
}

// node is a node of any kind; its cards are new ones.
func (m *model) node(name string) *v1.Node {
	m.next++
	core := randomNode(fmt.Sprintf("%s-%d", name, m.next), m.rnd.IntN)
	core.Name = name
	n := nodeObj(m.t, core)
	n.UID = types.UID(fmt.Sprintf("node-%s-%d", name, m.next))
	if m.rnd.IntN(8) > 0 {
		in(n, fmt.Sprintf("np%d/leaf%d", m.rnd.IntN(2), m.rnd.IntN(3)))
	}
	return n
}

func (m *model) log(f string, args ...any) {
	if *traceFlag {
		m.t.Logf("%d: "+f, append([]any{m.step}, args...)...)
	}
}

// operations with their weights. Each returns false if there was nothing to do.
var operations = []struct {
	name   string
	weight int
	do     func(*model) bool
}{
	{"single", 20, (*model).addSingle},
	{"set", 5, (*model).addSet},
	{"member", 24, (*model).addMember},
	{"delete", 12, (*model).remove},
	{"reap", 12, (*model).reap},
	{"finish", 12, (*model).finish},
	{"count", 8, (*model).countFinished},
	{"fail", 3, (*model).fail},
	{"lose node", 1, (*model).loseNode},
	{"return node", 2, (*model).returnNode},
	{"card", 3, (*model).changeCard},
	{"relabel", 3, (*model).relabel},
	{"min-member", 2, (*model).editSize},
	{"edit record", 1, (*model).editRecord},
	{"node label", 2, (*model).relabelNode},
	{"faults", 3, (*model).faults},
	{"kill", 1, (*model).crash},
	{"settle", 12, func(m *model) bool { m.settle(); return true }},
}

func (m *model) operate() {
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	for range 100 {
		x := m.rnd.IntN(total)
		for _, o := range operations {
			if x -= o.weight; x < 0 {
				if o.do(m) {
					m.count[o.name]++
					return
				}
				break
			}
		}
	}
}

// settle lets the cluster come to rest and judges it.
func (m *model) settle() {
	m.log("settle")
	m.api.mu.Lock()
	m.api.fault = nil
	m.api.mu.Unlock()
	m.settled(func(key types.NamespacedName) bool { return m.disturbed[key] || m.torn[key] })
	m.api.mu.Lock()
	defer m.api.mu.Unlock()
	for key, g := range m.board(m.api.pods()).groups {
		if g.Bound == 0 || g.Whole() {
			delete(m.disturbed, key)
		}
	}
}

// any chooses a pod that satisfies ok, nil if none does.
func (m *model) any(ok func(*v1.Pod) bool) *v1.Pod {
	var list []*v1.Pod
	for _, p := range m.api.pods() {
		if ok(p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[m.rnd.IntN(len(list))]
}

func runs(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil }

// disturb notes that something happens to a member of a group that has not
// been whole. The caller holds the mu of api.
func (m *model) disturb(p *v1.Pod) {
	for _, s := range m.sets {
		if s.name == p.Labels[kube.JobSetNameLabel] && !m.api.placed[s.key] {
			m.disturbed[s.key] = true
		}
	}
}

package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// reader finds the pod templates of one kind. n is the object and path its
// place in the document: empty, or an item of a List.
type reader func(n *Node, path string, w *rules.Workload)

// readers are the kinds whose pod templates are known here, by group and
// kind: versions of a kind keep them in the same place.
var readers = map[string]reader{
	"/Pod":                   readPod,
	"/PodTemplate":           at("template"),
	"/ReplicationController": replicated,
	"apps/Deployment":        replicated,
	"apps/ReplicaSet":        replicated,
	"apps/StatefulSet":       readStatefulSet,
	"apps/DaemonSet":         readDaemonSet,
	"batch/Job":              readJob,
	"batch/CronJob":          readCronJob,

	"jobset.x-k8s.io/JobSet":                      readJobSet,
	"leaderworkerset.x-k8s.io/LeaderWorkerSet":    readLWS,
	"ray.io/RayCluster":                           readRay("spec"),
	"ray.io/RayJob":                               readRay("spec", "rayClusterSpec"),
	"ray.io/RayService":                           readRay("spec", "rayClusterConfig"),
	"batch.volcano.sh/Job":                        readVolcano,
	"trainer.kubeflow.org/TrainJob":               readTrainJob,
	"trainer.kubeflow.org/TrainingRuntime":        readRuntime,
	"trainer.kubeflow.org/ClusterTrainingRuntime": readRuntime,
}

// readerOf is how to read a kind, nil if nobody taught it.
func readerOf(g gvk) reader {
	if r, ok := readers[g.group+"/"+g.kind]; ok {
		return r
	}
	if g.group == "kubeflow.org" && strings.HasSuffix(g.kind, "Job") {
		return readKubeflow
	}
	return nil
}

// step follows keys from a path.
func step(path string, keys ...string) string {
	for _, k := range keys {
		path = rules.Join(path, k)
	}
	return path
}

// number reads a whole number, or what holds where it is absent or broken.
func (n *Node) number(absent int64) int64 {
	if n == nil || n.Kind != Number {
		return absent
	}
	v, err := strconv.ParseInt(n.Text, 10, 32)
	if err != nil || v < 0 {
		return absent
	}
	return v
}

func readPod(n *Node, path string, w *rules.Workload) {
	w.Templates = append(w.Templates, templateOf(n, path))
}

// at reads one template of one pod under the keys.
func at(keys ...string) reader {
	return func(n *Node, path string, w *rules.Workload) {
		if t := n.Get(keys...); t != nil {
			w.Templates = append(w.Templates, templateOf(t, step(path, keys...)))
		}
	}
}

// add appends a template under the keys and returns it, nil if it is absent.
func add(n *Node, path string, w *rules.Workload, role string, pods int64, keys ...string) *rules.Template {
	tn := n.Get(keys...)
	if tn == nil {
		return nil
	}
	t := templateOf(tn, step(path, keys...))
	t.Role, t.Pods = role, pods
	w.Templates = append(w.Templates, t)
	return &w.Templates[len(w.Templates)-1]
}

func replicated(n *Node, path string, w *rules.Workload) {
	add(n, path, w, "", n.Get("spec", "replicas").number(1), "spec", "template")
}

func readStatefulSet(n *Node, path string, w *rules.Workload) {
	replicated(n, path, w)
	w.OrderedPods = n.Get("spec", "podManagementPolicy").text() != "Parallel"
}

func readDaemonSet(n *Node, path string, w *rules.Workload) {
	if t := add(n, path, w, "", 1, "spec", "template"); t != nil {
		t.Count = "one on each node that matches"
	}
}

func readJob(n *Node, path string, w *rules.Workload) { jobUnder(n, path, w, "", 1, false) }

func readCronJob(n *Node, path string, w *rules.Workload) {
	own(n.Get("spec", "jobTemplate"), step(path, "spec", "jobTemplate"), w)
	jobUnder(n.Get("spec", "jobTemplate"), step(path, "spec", "jobTemplate"), w, "", 1, false)
}

// own notes the metadata of an object between the manifest's own and the pod.
func own(n *Node, path string, w *rules.Workload) {
	w.Owners = append(w.Owners, metaOf(n.Get("metadata"), step(path, "metadata")))
}

// jobUnder reads a Job, or the template of one, of which there are so many.
func jobUnder(n *Node, path string, w *rules.Workload, role string, replicas int64, jobSet bool) {
	spec := n.Get("spec")
	j := &rules.Job{Path: step(path, "spec"), Parallelism: spec.Get("parallelism").number(1)}
	mode := spec.Get("completionMode").text()
	j.Indexed = mode == "Indexed" || (jobSet && mode == "")
	if c := spec.Get("completions"); c != nil && c.Kind == Number {
		v := c.number(0)
		j.Completions = &v
	}
	for _, r := range spec.Get("podFailurePolicy", "rules").list() {
		for _, cond := range r.Get("onPodConditions").list() {
			if r.Get("action").text() == "Ignore" && cond.Get("type").text() == "DisruptionTarget" {
				j.IgnoresDisruptions = true
			}
		}
	}
	if t := add(n, path, w, role, replicas*j.Parallelism, "spec", "template"); t != nil {
		t.Job = j
	}
}

func readJobSet(n *Node, path string, w *rules.Workload) {
	for i, r := range n.Get("spec", "replicatedJobs").list() {
		p := step(rules.Index(step(path, "spec", "replicatedJobs"), i), "template")
		own(r.Get("template"), p, w)
		jobUnder(r.Get("template"), p, w, r.Get("name").text(), r.Get("replicas").number(1), true)
	}
}

// readRuntime: a training runtime is a template of a JobSet.
func readRuntime(n *Node, path string, w *rules.Workload) {
	readJobSet(n.Get("spec", "template"), step(path, "spec", "template"), w)
}

func readLWS(n *Node, path string, w *rules.Workload) {
	groups := n.Get("spec", "replicas").number(1)
	size := n.Get("spec", "leaderWorkerTemplate", "size").number(1)
	count := fmt.Sprintf("%d groups of %d", groups, size)
	workers := size
	if t := add(n, path, w, "leader", groups, "spec", "leaderWorkerTemplate", "leaderTemplate"); t != nil {
		t.Count = count
		workers = max(size-1, 0)
	}
	if t := add(n, path, w, "worker", groups*workers, "spec", "leaderWorkerTemplate", "workerTemplate"); t != nil {
		t.Count = count
	}
}

// readRay reads a Ray cluster: one head, and worker groups whose replicas
// have several hosts each.
func readRay(keys ...string) reader {
	return func(n *Node, path string, w *rules.Workload) {
		add(n, path, w, "submitter", 1, "spec", "submitterPodTemplate")
		c, at := n.Get(keys...), step(path, keys...)
		add(c, at, w, "head", 1, "headGroupSpec", "template")
		for i, g := range c.Get("workerGroupSpecs").list() {
			replicas := g.Get("replicas").number(g.Get("minReplicas").number(1))
			hosts := g.Get("numOfHosts").number(1)
			name := g.Get("groupName").text()
			if t := add(g, rules.Index(step(at, "workerGroupSpecs"), i), w, name, replicas*hosts, "template"); t != nil && hosts > 1 {
				t.Count = fmt.Sprintf("1 head, and %d replicas of %d hosts", replicas, hosts)
			}
		}
	}
}

// readKubeflow reads the training operators' jobs: a map of roles whose name
// ends with ReplicaSpecs.
func readKubeflow(n *Node, path string, w *rules.Workload) {
	for _, f := range n.Get("spec").entries() {
		if !strings.HasSuffix(f.Key, "ReplicaSpecs") {
			continue
		}
		for _, role := range f.Value.entries() {
			add(role.Value, step(path, "spec", f.Key, role.Key), w, role.Key, role.Value.Get("replicas").number(1), "template")
		}
	}
	w.LauncherLast = n.Get("spec", "launcherCreationPolicy").text() == "WaitForWorkersReady"
}

// readVolcano: the scheduler's name stands once for all tasks.
func readVolcano(n *Node, path string, w *rules.Workload) {
	for i, task := range n.Get("spec", "tasks").list() {
		t := add(task, rules.Index(step(path, "spec", "tasks"), i), w, task.Get("name").text(), task.Get("replicas").number(1), "template")
		if name := textOf(n.Get("spec", "schedulerName")); t != nil && !t.SchedulerName.Set {
			t.SchedulerName = name
		}
	}
}

// readTrainJob: the pod template is in the runtime that the job names; only
// the amounts, and what the job overrides, stand here.
func readTrainJob(n *Node, path string, w *rules.Workload) {
	trainer := n.Get("spec", "trainer")
	at := step(path, "spec", "trainer", "resourcesPerNode")
	w.Elsewhere = "the runtime " + n.Get("spec", "runtimeRef", "name").text()
	w.Templates = append(w.Templates, rules.Template{
		Path: step(path, "spec", "trainer"), Role: "trainer", Pods: trainer.Get("numNodes").number(1),
		Meta: rules.Meta{Path: step(path, "metadata")},
		Containers: []rules.Container{{
			Path: step(path, "spec", "trainer"), Name: "trainer",
			Limits:   amountsOf(trainer.Get("resourcesPerNode", "limits"), step(at, "limits")),
			Requests: amountsOf(trainer.Get("resourcesPerNode", "requests"), step(at, "requests")),
		}},
	})
}

// lookalikes are the paths of what looks like a pod template in an object of
// unknown kind: a mapping with spec.containers, or a list of containers.
func lookalikes(n *Node, path string, depth int, out []string) []string {
	const enough = 20
	if n == nil || len(out) >= enough || depth > maxDepth {
		return out
	}
	for _, key := range []string{"containers", "initContainers"} {
		if c := n.Get(key); c != nil && c.Kind == List && len(c.Items) > 0 && c.Items[0].Kind == Map {
			return append(out, strings.TrimSuffix(path, ".spec"))
		}
	}
	for _, f := range n.Fields {
		out = lookalikes(f.Value, rules.Join(path, f.Key), depth+1, out)
	}
	for i, item := range n.Items {
		out = lookalikes(item, rules.Index(path, i), depth+1, out)
	}
	return out
}

package whypending

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// placed answers for pods that are past the scheduler: ended, running, or on
// their node and not running yet. It returns whether the pod is one.
func (q *inquiry) placed() bool {
	pod := q.pod
	at := func(code reason.Code, device string, detail ...string) explain.Cause {
		return explain.Cause{Reason: reason.Reason{Code: code, Device: device, Detail: detail}}
	}
	switch {
	case kubeletRefusal(pod):
		c := at("kubelet-refused", pod.Spec.NodeName, pod.Status.Reason)
		c.Text = fmt.Sprintf("refused by the kubelet of %s: %s: %s", pod.Spec.NodeName, pod.Status.Reason, q.refusalMeaning(pod))
		q.say(c)
		return true
	case kube.Finished(pod):
		q.say(at("finished", "", strings.TrimSpace(string(pod.Status.Phase)+" "+pod.Status.Reason)))
		return true
	case pod.Spec.NodeName == "":
		return false
	}
	if pod.DeletionTimestamp != nil {
		q.say(at("being-deleted", "", since(q.age(pod.DeletionTimestamp.Time))))
	}
	q.containers()
	if pod.Status.Phase == v1.PodRunning {
		if name := zeroCore(pod, q.cfg); name != "" {
			q.say(at("core-zero-running", name))
		}
		q.say(at("running", pod.Spec.NodeName))
		return true
	}
	if q.s.Lacks("nodes") == nil && q.nodes[pod.Spec.NodeName] == nil {
		q.say(at("node-not-found", pod.Spec.NodeName))
	} else if n := q.nodes[pod.Spec.NodeName]; n != nil {
		if sick := q.notReady(n); sick != nil {
			sick.Check = ""
			q.say(*sick)
		}
	}
	q.kubeletEvents()
	if asksCards(pod, q.cfg) {
		if _, why := kube.AllocationOf(pod); why != "" && q.req != nil && !q.req.Empty() {
			q.notes = append(q.notes, why+": its node will give it no card")
		}
	}
	if len(q.in.Lead) == 0 {
		q.say(at("starting", pod.Spec.NodeName))
	}
	return true
}

// containers reads what kubelet says about containers that do not run.
func (q *inquiry) containers() {
	for _, list := range [][]v1.ContainerStatus{q.pod.Status.InitContainerStatuses, q.pod.Status.ContainerStatuses} {
		for i := range list {
			cs := &list[i]
			w := cs.State.Waiting
			if w == nil {
				continue
			}
			r := reason.Reason{Device: cs.Name, Detail: []string{clip(w.Message, 200)}}
			switch w.Reason {
			case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
				r.Code, r.Device = "image-pull", cs.Image
				r.Detail = []string{strings.TrimSpace(w.Reason + " " + clip(w.Message, 160))}
			case "CreateContainerError", "RunContainerError":
				r.Code, r.Device = "runtime-refused", q.pod.Spec.NodeName
			case "CreateContainerConfigError":
				r.Code = "container-config"
			case "CrashLoopBackOff":
				r.Code, r.Detail = "crash-loop", []string{plural(int(cs.RestartCount), "restart", "restarts")}
			default:
				continue
			}
			q.say(explain.Cause{Reason: r})
		}
	}
}

// eventLife is how long an event about a container start is worth quoting: a
// kubelet repeats it every few minutes while the trouble lasts.
const eventLife = 10 * time.Minute

// kubeletEvents are for what no status field shows: the sandbox and volumes.
func (q *inquiry) kubeletEvents() {
	ns, name := q.pod.Namespace, q.pod.Name
	if e := q.lastEvent("Pod", ns, name, "FailedCreatePodSandBox"); e != nil && q.age(eventTime(e)) < eventLife {
		r := reason.Reason{Code: "runtime-refused", Device: q.pod.Spec.NodeName, Detail: []string{clip(e.Message, 200)}}
		if strings.Contains(e.Message, "no runtime for") || strings.Contains(e.Message, "runtime handler") {
			r.Code = "runtime-handler-missing"
		}
		q.say(explain.Cause{Reason: r})
	}
	if e := q.lastEvent("Pod", ns, name, "FailedMount", "FailedAttachVolume"); e != nil && q.age(eventTime(e)) < eventLife {
		q.say(cause("volume-mount", clip(e.Message, 200)))
	}
}

package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/ljctl/jobs"
)

// pollEvery is how often a job is looked at.
const pollEvery = time.Second

// waitable refuses --wait where nobody could say when it is over.
func waitable(p *plan) error {
	for i := range p.items {
		if isJob(p.items[i].object) {
			return nil
		}
	}
	return cliutil.WithHint(cliutil.Usagef("--wait knows pods, Jobs and JobSets, and there is none"), "leave --wait out")
}

// sleep waits on the clock, or until ctx ends.
func (o *options) sleep(ctx context.Context, d time.Duration) error {
	t := o.f.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C():
		return nil
	}
}

// waitFor watches the jobs until all run, or have ended. It never touches
// them: an interrupted wait leaves the job going on.
func (o *options) waitFor(ctx context.Context, clients kube.Clients, made []*unstructured.Unstructured) error {
	cfg, _, err := o.f.ClusterConfig(ctx)
	if err != nil {
		return err
	}
	start := o.f.Clock.Now()
	last := map[string]string{}
	for {
		open, failed := 0, ""
		for _, u := range made {
			if !isJob(u) {
				continue
			}
			row, err := look(ctx, clients, u, cfg)
			if err != nil {
				return o.interrupted(ctx, u, err)
			}
			o.say(u, row, last)
			switch {
			case row.Status == jobs.Failed:
				failed = ref(u)
			case !o.reached(row.Status):
				open++
			}
		}
		if failed != "" {
			return cliutil.WithHint(&cliutil.ExitError{Code: reason.ExitNo, Err: fmt.Errorf("%s failed", failed)}, "ljctl logs %s", failed)
		}
		if open == 0 {
			return nil
		}
		if o.timeout > 0 && o.f.Clock.Since(start) >= o.timeout {
			return cliutil.WithHint(&cliutil.ExitError{Code: reason.ExitTimeout, Err: fmt.Errorf("not %s within %s; the job goes on", o.wait, o.timeout)},
				"ljctl jobs shows where it is")
		}
		if err := o.sleep(ctx, pollEvery); err != nil {
			return o.interrupted(ctx, made[0], err)
		}
	}
}

func (o *options) reached(s jobs.Status) bool {
	return s == jobs.Complete || o.wait == waitRunning && s == jobs.Running
}

// say prints a change of state, once.
func (o *options) say(u *unstructured.Unstructured, row *jobs.Row, last map[string]string) {
	line := fmt.Sprintf("%s: %s, %d/%d pods running", ref(u), row.Status, row.PodsRunning, row.PodsWanted)
	if row.Reason != "" && !row.Status.Ended() {
		line += ": " + first(row.Message, row.Reason)
	} else if row.Status == jobs.Failed {
		line += ": " + first(row.Message, row.Reason)
	}
	if last[ref(u)] != line {
		last[ref(u)] = line
		fmt.Fprintln(o.f.Streams.ErrOut, cliutil.Escape(line))
	}
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func (o *options) interrupted(ctx context.Context, u *unstructured.Unstructured, err error) error {
	if ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(o.f.Streams.ErrOut, "the job goes on; see it with: ljctl jobs %s, end it with: ljctl delete %s\n", ref(u), ref(u))
	return ctx.Err()
}

// errGone is a job that somebody deleted while it was waited for.
var errGone = errors.New("it was deleted")

// look reads one job and its pods and reduces them as "ljctl jobs" does.
func look(ctx context.Context, c kube.Clients, u *unstructured.Unstructured, cfg config.Config) (*jobs.Row, error) {
	s := &kube.Snapshot{}
	ns, name := u.GetNamespace(), u.GetName()
	var err error
	selector := ""
	switch u.GetKind() {
	case "Pod":
		var p *v1.Pod
		if p, err = c.Typed.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{}); err == nil {
			s.Pods = append(s.Pods, p)
		}
	case "Job":
		var j *batchv1.Job
		if j, err = c.Typed.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{}); err == nil {
			s.Jobs = append(s.Jobs, j)
			selector = "batch.kubernetes.io/controller-uid=" + string(j.UID)
		}
	default:
		var js *unstructured.Unstructured
		if js, err = c.Dynamic.Resource(kube.JobSets).Namespace(ns).Get(ctx, name, metav1.GetOptions{}); err == nil {
			s.JobSets = append(s.JobSets, js)
			selector = "jobset.sigs.k8s.io/jobset-name=" + name
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: %w", ref(u), errGone)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref(u), err)
	}
	if selector != "" {
		l, err := c.Typed.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("pods of %s: %w", ref(u), err)
		}
		for i := range l.Items {
			s.Pods = append(s.Pods, &l.Items[i])
		}
	}
	for _, r := range jobs.Reduce(s, cfg) {
		if r.Name == name && r.Kind == u.GetKind() {
			return &r, nil
		}
	}
	// It asks for no card, so it is no job to the table.
	return &jobs.Row{Status: plainStatus(s), PodsWanted: len(s.Pods)}, nil
}

// plainStatus is for jobs without cards, which a file may have.
func plainStatus(s *kube.Snapshot) jobs.Status {
	for _, j := range s.Jobs {
		for _, c := range j.Status.Conditions {
			if c.Status == v1.ConditionTrue && c.Type == batchv1.JobComplete {
				return jobs.Complete
			}
			if c.Status == v1.ConditionTrue && c.Type == batchv1.JobFailed {
				return jobs.Failed
			}
		}
	}
	running := len(s.Pods) > 0
	for _, p := range s.Pods {
		switch {
		case len(s.Jobs)+len(s.JobSets) == 0 && p.Status.Phase == v1.PodSucceeded:
			return jobs.Complete
		case len(s.Jobs)+len(s.JobSets) == 0 && p.Status.Phase == v1.PodFailed:
			return jobs.Failed
		}
		running = running && p.Status.Phase == v1.PodRunning
	}
	if running {
		return jobs.Running
	}
	return jobs.Pending
}

package submit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/kube"
)

// printObjects says what was made, in the format of -o. how is "dry run",
// "server dry run", or empty for what exists now.
func (o *options) printObjects(objects []*unstructured.Unstructured, how string) error {
	w := o.f.Streams.Out
	switch o.output {
	case "json":
		if len(objects) == 1 {
			return cliutil.PrintObject(w, "json", objects[0].Object)
		}
		items := make([]any, len(objects))
		for i, u := range objects {
			items[i] = u.Object
		}
		return cliutil.PrintObject(w, "json", map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	case "yaml":
		for i, u := range objects {
			if i > 0 {
				if _, err := fmt.Fprintln(w, "---"); err != nil {
					return err
				}
			}
			b, err := yaml.Marshal(u.Object)
			if err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
		return nil
	}
	for _, u := range objects {
		line := ref(u)
		if o.output != "name" {
			line += " created"
			if how != "" {
				line += " (" + how + ")"
			}
		}
		if _, err := fmt.Fprintln(w, cliutil.Escape(line)); err != nil {
			return err
		}
	}
	return nil
}

// nextSteps tells how to follow the job, on the error stream.
func (o *options) nextSteps(made []*unstructured.Unstructured) {
	if o.output != "" || o.wait != "" {
		return
	}
	for _, u := range made {
		if !isJob(u) {
			continue
		}
		name := u.GetName()
		if u.GetKind() != "Pod" {
			name = ref(u)
		}
		ns := ""
		if u.GetNamespace() != "default" {
			ns = " -n " + u.GetNamespace()
		}
		fmt.Fprintf(o.f.Streams.ErrOut, "next: ljctl jobs %s%s, ljctl why-pending %s%s, ljctl logs -f %s%s\n", ref(u), ns, name, ns, ref(u), ns)
		return
	}
}

// isJob tells the kinds that --wait and the next steps know.
func isJob(u *unstructured.Unstructured) bool {
	switch u.GroupVersionKind().GroupKind().String() {
	case "Pod", "Job.batch", kube.JobSetKind.GroupKind().String():
		return true
	}
	return false
}

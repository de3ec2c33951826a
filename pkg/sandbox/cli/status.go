package cli

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// StatusVersion is the apiVersion of Status.
const StatusVersion = "sandbox.lj.aliyun.com/v1"

// Status is what `ljsandbox status -o json` prints.
type Status struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Running    bool             `json:"running"`
	StateDir   string           `json:"stateDir"`
	Kubeconfig string           `json:"kubeconfig,omitempty"`
	Sandbox    *statedir.Record `json:"sandbox,omitempty"`
	Nodes      []NodeStatus     `json:"nodes,omitempty"`
}

// NodeStatus is one node of the cluster.
type NodeStatus struct {
	Name    string `json:"name"`
	State   string `json:"state"` // Ready, NotReady, and Unschedulable after a comma
	Enabled bool   `json:"enabled"`
	Cards   int    `json:"cards"`
	MIG     int    `json:"mig"`  // of the cards, those in MIG mode
	Sick    int    `json:"sick"` // of the cards, those not to be given out
	Model   string `json:"model,omitempty"`
	NICs    int    `json:"nics"`
	Error   string `json:"error,omitempty"` // why the inventory cannot be read
}

func newStatus(p *Program) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the cluster runs, and what is in it",
		Long:  `Say whether the cluster runs, and what is in it. Exit code 0: it runs; 3: it does not; 5: it is starting.`,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := p.stateDir()
			if err != nil {
				return err
			}
			return status(cmd.Context(), p, dir, output)
		},
	}
	cliutil.OutputFlag(cmd, &output, "text", "text", "json")
	return cmd
}

func status(ctx context.Context, p *Program, dir statedir.Dir, output string) error {
	s := Status{APIVersion: StatusVersion, Kind: "SandboxStatus", StateDir: string(dir)}
	code := reason.ExitNo
	var problem error
	if _, running := dir.Holder(); running {
		s.Running, s.Kubeconfig, code = true, dir.AdminKubeconfig(), reason.ExitNotYet
		if r, err := dir.Read(); err == nil {
			s.Sandbox = &r
			if r.Ready {
				code = reason.ExitOK
				s.Nodes, problem = listNodes(ctx, dir)
			}
		}
	}
	if output == "json" {
		if err := cliutil.PrintObject(p.Streams.Out, "json", s); err != nil {
			return err
		}
	} else {
		printStatus(p.Streams.Out, dir, s)
	}
	if problem != nil {
		return problem
	}
	if code != reason.ExitOK {
		return &cliutil.ExitError{Code: code}
	}
	return nil
}

func listNodes(ctx context.Context, dir statedir.Dir) ([]NodeStatus, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", dir.AdminKubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cliutil.WithHint(fmt.Errorf("the sandbox runs, but its API server does not answer: %w", err), "look at %s", dir.Log())
	}
	out := make([]NodeStatus, 0, len(nodes.Items))
	for i := range nodes.Items {
		out = append(out, nodeStatus(&nodes.Items[i]))
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func nodeStatus(n *v1.Node) NodeStatus {
	s := NodeStatus{Name: n.Name, State: "NotReady", Enabled: n.Labels[kube.EnableLabel] == "true"}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			s.State = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		s.State += ",Unschedulable"
	}
	text, ok := n.Annotations[kube.InventoryAnnotation]
	if !ok {
		return s
	}
	inv, err := device.DecodeInventory(text)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Cards, s.NICs = len(inv.Cards), len(inv.NICs)
	for i := range inv.Cards {
		c := &inv.Cards[i]
		s.Model = c.Model
		if c.InMIGMode() {
			s.MIG++
		}
		if !c.Healthy() {
			s.Sick++
		}
	}
	return s
}

func printStatus(w io.Writer, dir statedir.Dir, s Status) {
	switch {
	case !s.Running:
		fmt.Fprintf(w, "the sandbox is not running (start it with ljsandbox up)\n")
		return
	case s.Sandbox == nil || !s.Sandbox.Ready:
		fmt.Fprintf(w, "the sandbox is starting; its log is %s\n", dir.Log())
		return
	}
	r := s.Sandbox
	fmt.Fprintf(w, "the sandbox is running since %s (pid %d), Kubernetes %s\n", r.Started.Local().Format(time.DateTime), r.PID, r.Kubernetes)
	printPlaces(w, dir, *r)
	if len(s.Nodes) == 0 {
		return
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "NODE\tSTATE\tENABLED\tCARDS\tMODEL\tMIG\tSICK\tNICS")
	for _, n := range s.Nodes {
		model := n.Model
		if n.Error != "" {
			model = "unknown: " + n.Error
		}
		fmt.Fprintln(tw, strings.Join([]string{n.Name, n.State, yesNo(n.Enabled), fmt.Sprint(n.Cards), model,
			fmt.Sprint(n.MIG), fmt.Sprint(n.Sick), fmt.Sprint(n.NICs)}, "\t"))
	}
	_ = tw.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

package version

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
)

// serverWait bounds the question to the cluster: it is the lesser half of the
// answer.
const serverWait = 3 * time.Second

type options struct {
	f          *cliutil.Factory
	clientOnly bool
	output     string
}

// info is what is printed.
type info struct {
	Client cliutil.VersionInfo `json:"client"`
	// Server is the cluster's version; ServerError is why there is none.
	Server      string `json:"server,omitempty"`
	ServerError string `json:"serverError,omitempty"`
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the version of ljctl and of the cluster",
		Example:           "  # Only this program, without asking the cluster\n  ljctl version --client\n\n  # For scripts\n  ljctl version -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.clientOnly, "client", false, "Do not ask the cluster for its version")
	cliutil.OutputFlag(cmd, &o.output, "", "json", "yaml")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	i := info{Client: cliutil.ThisVersion()}
	if !o.clientOnly {
		i.ask(ctx, o.f)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return i.print(o.f.Streams.Out, o.output)
}

func (i *info) ask(ctx context.Context, f *cliutil.Factory) {
	client, err := f.Clientset()
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, serverWait)
		defer cancel()
		var raw []byte
		raw, err = client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
		if err == nil {
			var v struct {
				GitVersion string `json:"gitVersion"`
			}
			if err = json.Unmarshal(raw, &v); err == nil {
				i.Server = v.GitVersion
				return
			}
		}
	}
	i.ServerError = cliutil.Explain(err).Error()
}

func (i *info) print(w io.Writer, format string) error {
	if format != "" {
		return cliutil.PrintObject(w, format, i)
	}
	commit := ""
	if i.Client.Commit != "" {
		commit = " (" + i.Client.Commit + ")"
	}
	fmt.Fprintf(w, "ljctl       %s%s, Kubernetes client %s, %s %s\n",
		i.Client.Version, commit, i.Client.Kubernetes, i.Client.Go, i.Client.Platform)
	switch {
	case i.Server != "":
		fmt.Fprintf(w, "Kubernetes  %s\n", cliutil.Escape(i.Server))
	case i.ServerError != "":
		fmt.Fprintf(w, "Kubernetes  unknown: %s\n", cliutil.Escape(i.ServerError))
	}
	return nil
}

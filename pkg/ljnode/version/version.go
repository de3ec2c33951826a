// Package version is the command "ljnode version".
package version

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"lj.aliyun.com/kit/pkg/cliutil"
)

// NewCmd makes the command.
func NewCmd(streams genericiooptions.IOStreams) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the version of ljnode",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			v := cliutil.ThisVersion()
			if output != "" {
				return cliutil.PrintObject(streams.Out, output, v)
			}
			commit := ""
			if v.Commit != "" {
				commit = " (" + v.Commit + ")"
			}
			_, err := fmt.Fprintf(streams.Out, "ljnode  %s%s, Kubernetes %s, %s %s\n", v.Version, commit, v.Kubernetes, v.Go, v.Platform)
			return err
		},
	}
	cliutil.OutputFlag(cmd, &output, "", "json", "yaml")
	return cmd
}

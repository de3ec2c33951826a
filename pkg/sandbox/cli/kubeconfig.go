package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// errNotRunning is the answer no: exit code 3.
func errNotRunning() error {
	return &cliutil.ExitError{Code: reason.ExitNo, Err: cliutil.WithHint(errors.New("the sandbox is not running"), "start it with ljsandbox up")}
}

func newKubeconfig(p *Program) *cobra.Command {
	var path bool
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := p.stateDir()
			if err != nil {
				return err
			}
			if _, running := dir.Holder(); !running {
				return errNotRunning()
			}
			if path {
				fmt.Fprintln(p.Streams.Out, dir.AdminKubeconfig())
				return nil
			}
			b, err := os.ReadFile(dir.AdminKubeconfig())
			if err != nil {
				return cliutil.WithHint(fmt.Errorf("the sandbox is starting: %w", err), "try again when ljsandbox status says it is ready")
			}
			_, err = p.Streams.Out.Write(b)
			return err
		},
	}
	cmd.Flags().BoolVar(&path, "path", false, "Print where the file is instead")
	return cmd
}

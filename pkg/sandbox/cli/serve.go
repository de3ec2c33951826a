package cli

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// newServe is what `up` starts in the background.
func newServe(p *Program) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the cluster; started by up", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := p.stateDir()
			if err != nil {
				return err
			}
			tell := teller()
			s, err := o.serveOptions(dir)
			if err == nil {
				s.Detached = true
				s.Ready = func(r statedir.Record) { tell(message{Ready: &r}) }
				err = p.Serve(cmd.Context(), s)
			}
			if err != nil {
				tell(failure(err))
			}
			return err
		},
	}
	o.addFlags(cmd)
	return cmd
}

// teller sends one message to the process that waits at the other end of the
// pipe; later ones go nowhere.
func teller() func(message) {
	syscall.CloseOnExec(readyFD) // the scheduler must not keep it open
	pipe := os.NewFile(readyFD, "ready")
	return func(m message) {
		if pipe == nil {
			return
		}
		_ = json.NewEncoder(pipe).Encode(m)
		_ = pipe.Close()
		pipe = nil
	}
}

// failure takes an error and its hint apart as they would have been printed.
func failure(err error) message {
	var b strings.Builder
	cliutil.Report(&b, err)
	text, hint, _ := strings.Cut(strings.TrimSpace(b.String()), "\nhint: ")
	return message{
		Error:   strings.TrimPrefix(text, "error: "),
		Hint:    hint,
		Running: errors.Is(err, statedir.ErrRunning),
		Denied:  errors.Is(err, os.ErrPermission),
	}
}

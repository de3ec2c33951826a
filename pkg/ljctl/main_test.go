package ljctl

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestInterruptedWhileReading covers Ctrl-C on a command whose input is a
// pipe on which nothing comes: it ends with 130 at the first signal.
func TestInterruptedWhileReading(t *testing.T) {
	t.Setenv("KUBECONFIG", "testdata/no-kubeconfig")
	t.Setenv("HOME", t.TempDir())
	for _, line := range []string{
		"validate -f -",
		"submit -f -",
		"why-pending -f -",
		"why-pending -A --snapshot -",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			silent, w := io.Pipe()
			t.Cleanup(func() { w.Close() })
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			code := make(chan int, 1)
			go func() {
				code <- Main(ctx, append([]string{"ljctl"}, strings.Fields(line)...),
					genericiooptions.IOStreams{In: silent, Out: io.Discard, ErrOut: io.Discard})
			}()
			select {
			case got := <-code:
				if got != 130 {
					t.Errorf("exit code %d, want 130", got)
				}
			case <-time.After(30 * time.Second):
				t.Error("still running 30 s after the interruption")
			}
		})
	}
}

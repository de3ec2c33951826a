// Ljsandbox runs a whole GPU cluster on one machine, without GPUs.
package main

import (
	"os"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox"
)

func main() {
	os.Exit(sandbox.Main(cliutil.SignalContext(), os.Args[1:], cliutil.StdStreams()))
}

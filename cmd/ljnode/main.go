// Ljnode is the program of GPU hosts and of the control plane.
package main

import (
	"os"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/ljnode"
)

func main() {
	os.Exit(ljnode.Main(cliutil.SignalContext(), os.Args, cliutil.StdStreams()))
}

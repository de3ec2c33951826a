// Ljctl submits, checks and explains GPU jobs on LINGJUN clusters.
package main

import (
	"os"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/ljctl"
)

func main() {
	os.Exit(ljctl.Main(cliutil.SignalContext(), os.Args, cliutil.StdStreams()))
}

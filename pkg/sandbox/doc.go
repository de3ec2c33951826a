// Package sandbox is a whole cluster on one machine without containers: a real
// control plane, simulated GPU nodes, and our scheduler beside it as a process
// of its own. It is the program ljsandbox, and the cluster of tests:
//
//	c, err := sandbox.Start(ctx, sandbox.Options{NoScheduler: true})
//	defer c.Stop()
//	client := kubernetes.NewForConfigOrDie(c.AdminConfig())
//
// Whatever imports it links kube-apiserver (about 180 MB). What does not need
// that is in packages of its own: fleet, simnode, statedir, cli.
package sandbox

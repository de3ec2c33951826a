package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// contender is one way to run a scheduler on the sandbox.
type contender struct {
	name    string
	program string
	// config is a KubeSchedulerConfiguration without its client's part; empty
	// for the suite's scheduler, which has its settings built in.
	config string
}

// The stock scheduler gets the client limits of the suite's (pkg/sched/server),
// and answers to its name, so that the pods are the same to the last byte.
const stockHead = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000, contentType: application/vnd.kubernetes.protobuf}
profiles:
- schedulerName: lj-runtimekit-scheduler
`

// stockSame is the stock scheduler with what pkg/sched's profile has of the
// in-tree plugins and arguments, and packs whole cards as it does.
const stockSame = `  plugins:
    multiPoint:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: ImageLocality}]
  pluginConfig:
  - name: PodTopologySpread
    args: {defaultingType: List}
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 1}]}}
`

func ours(ljnode string) contender { return contender{name: "lj", program: ljnode} }

func stockEqual(program string) contender {
	return contender{"kube-scheduler, same plugins", program, stockHead + stockSame}
}

func stockDefault(program string) contender {
	return contender{"kube-scheduler, default profile", program, stockHead}
}

// process is a running scheduler.
type process struct {
	cmd  *exec.Cmd
	port string
	log  string
	done chan struct{}
}

// run starts the scheduler and returns when it is ready to schedule.
func (k contender) run(ctx context.Context, c *cluster) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"scheduler", "--leader-elect=false", "--kubeconfig", c.dir.SchedulerKubeconfig()}
	if k.config != "" {
		file := filepath.Join(filepath.Dir(string(c.dir)), "stock.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, k.config, c.dir.SchedulerKubeconfig()), 0o600); err != nil {
			return nil, err
		}
		args = []string{"--config", file, "--authentication-kubeconfig", c.dir.SchedulerKubeconfig(),
			"--authorization-kubeconfig", c.dir.SchedulerKubeconfig(), "--bind-address", "127.0.0.1"}
	}
	p := &process{port: port, log: filepath.Join(filepath.Dir(string(c.dir)), "scheduler.log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(k.program, append(args, "--secure-port", port)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches us first
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	if err := poll(ctx, k.name+" ready", p.ready); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

var insecure = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func (p *process) ready() (bool, error) {
	select {
	case <-p.done:
		text, _ := os.ReadFile(p.log)
		return false, fmt.Errorf("the scheduler ended: %s", text)
	default:
	}
	resp, err := insecure.Get("https://127.0.0.1:" + p.port + "/readyz")
	if err != nil {
		return false, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode == http.StatusOK, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// cpuOf is what a process has used since its start.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 13 {
		return 0, errors.New("/proc/PID/stat: unknown format")
	}
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / clockTicks, errors.Join(err1, err2)
}

func (p *process) cpu() (time.Duration, error) { return cpuOf(p.cmd.Process.Pid) }

// clockTicks is USER_HZ, 100 on every platform that Go runs on.
const clockTicks = 100

func freePort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

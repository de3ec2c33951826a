package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"lj.aliyun.com/kit/pkg/cliutil"
)

// FindScheduler returns the program that runs the scheduler: the one given,
// else ljnode beside this program, else ljnode on PATH.
func FindScheduler(given string) (string, error) {
	path, err := findProgram("ljnode", given)
	if err != nil {
		return "", cliutil.WithHint(err, "build it with `make build`, name it with --ljnode, or leave the scheduler out with --no-scheduler")
	}
	return path, nil
}

// findProgram returns the path of a program of the suite: the one given, else
// the one beside this program, else the one on PATH.
func findProgram(name, given string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("program %s: %w", given, errors.Unwrap(err))
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := exec.LookPath(beside); err == nil {
			return beside, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("%s is neither beside ljsandbox nor on PATH", name)
}

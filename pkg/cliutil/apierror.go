package cliutil

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// Explain turns what client libraries say about an API server into one
// sentence with the next step. Errors that already have an exit code or a
// hint, and errors about other things, pass unchanged.
func Explain(err error) error {
	var ee *ExitError
	var h hinted
	if err == nil || errors.As(err, &ee) || errors.As(err, &h) || errors.Is(err, context.Canceled) {
		return err
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return explainStatus(err, status)
	}
	return explainTransport(err)
}

// explainStatus is for answers that the API server itself gave.
func explainStatus(err error, status apierrors.APIStatus) error {
	s := status.Status()
	msg := func(name string) error { return fmt.Errorf("from server (%s): %w", name, err) }
	switch {
	case apierrors.IsUnauthorized(err):
		return WithHint(errors.New("you must be logged in to the server: it refused the credentials"),
			"renew the login that the kubeconfig uses; see it with: kubectl config view --minify")
	case apierrors.IsForbidden(err):
		return WithHint(msg("Forbidden"), "ask an administrator for the verb named above; check with: kubectl auth can-i --list")
	case apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err):
		return &ExitError{Code: reason.ExitTimeout, Err: WithHint(msg("Timeout"), "the server is overloaded or starting; try again")}
	case apierrors.IsTooManyRequests(err):
		return WithHint(msg("TooManyRequests"), "the server is overloaded; try again")
	case apierrors.IsServiceUnavailable(err):
		return WithHint(msg("ServiceUnavailable"), "the server is starting or stopping; try again")
	case notAnAPIServer(s.Message):
		return WithHint(errors.New("what answers at the server's address is no Kubernetes API server"),
			"see the address with: kubectl config view --minify; a proxy may stand between")
	case s.Reason != "":
		return msg(string(s.Reason))
	}
	return err
}

// explainTransport is for servers that gave no answer worth the name.
func explainTransport(err error) error {
	host := "the server"
	var ue *url.Error
	if errors.As(err, &ue) {
		if u, perr := url.Parse(ue.URL); perr == nil && u.Host != "" {
			host = "the server " + u.Host
		}
	}
	var dns *net.DNSError
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return WithHint(fmt.Errorf("the connection to %s was refused", host),
			"is it running, and is the kubeconfig's context the right one? see: kubectl config view --minify")
	case errors.As(err, &dns):
		return WithHint(fmt.Errorf("%s cannot be found: %s", host, dns.Err), "check the address with: kubectl config view --minify")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return &ExitError{Code: reason.ExitTimeout, Err: WithHint(fmt.Errorf("%s did not answer in time", host),
			"try again, or allow more time with --request-timeout")}
	case ue != nil && isTLS(err):
		return WithHint(fmt.Errorf("no trusted connection to %s: %w", host, ue.Err),
			"check certificate-authority and the address in: kubectl config view --minify")
	case notAnAPIServer(err.Error()):
		return WithHint(fmt.Errorf("what answers at %s is no Kubernetes API server", strings.TrimPrefix(host, "the server ")),
			"see the address with: kubectl config view --minify; a proxy may stand between")
	case ue != nil:
		return WithHint(fmt.Errorf("%s cannot be reached: %w", host, ue.Err), "check the address with: kubectl config view --minify")
	}
	return err
}

// notAnAPIServer knows the complaints of the decoders about answers that are
// web pages or noise.
func notAnAPIServer(msg string) bool {
	for _, sign := range []string{"looking for beginning of value", "unexpected end of JSON input", "couldn't get version/kind",
		"serializer for ", "malformed HTTP", "HTTP response to HTTPS client", "unable to decode", "Object 'Kind' is missing",
		"converting (v1.Status)", "unexpected EOF"} {
		if strings.Contains(msg, sign) {
			return true
		}
	}
	return false
}

func isTLS(err error) bool {
	return strings.Contains(err.Error(), "x509:") || strings.Contains(err.Error(), "tls:")
}

func firstLine(err error) string {
	if err == nil {
		return ""
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

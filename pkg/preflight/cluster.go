package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// deadline bounds each single question to the API server.
const deadline = 30 * time.Second

// Cluster answers questions about one cluster, as one user. It is safe for concurrent use.
type Cluster struct {
	client       kubernetes.Interface
	installation api.Installation
	now          func() time.Time
}

// New makes a Cluster with an installation, without asking anything.
func New(config *rest.Config, in api.Installation) (*Cluster, error) {
	client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: client, installation: in, now: time.Now}, nil
}

func newClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	if config.Timeout == 0 {
		config.Timeout = deadline
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client for preflight: %w", err)
	}
	return client, nil
}

// CheckCluster asks everything that an executor needs to know at its start. If the first answer does not come, the others are not asked for.
func (c *Cluster) CheckCluster(ctx context.Context) []Finding {
	server, reachable := c.CheckServer(ctx)
	findings := []Finding{server}
	if !reachable {
		return findings
	}
	findings = append(findings, c.CheckCRDs(ctx)...)
	findings = append(findings, c.CheckPolicies(ctx)...)
	findings = append(findings, c.CheckFleetPolicies(ctx)...)
	return append(findings, c.CheckRivals(ctx)...)
}

// CheckBeforeStart looks, and returns an error that names all that forbids an executor to work in this cluster. The findings are
// returned in either case, for the log.
func (c *Cluster) CheckBeforeStart(ctx context.Context) ([]Finding, error) {
	findings := c.CheckCluster(ctx)
	var list []string
	for _, f := range Errors(findings) {
		list = append(list, strings.TrimSpace(f.Message+" "+f.Remedy))
	}
	if len(list) == 0 {
		return findings, nil
	}
	return findings, errors.New("refusing to start: " + strings.Join(list, " "))
}

// minimumMinor is the first minor version of Kubernetes 1 that Sluice is made for, policyMinor the first that serves
// MutatingAdmissionPolicy v1. In between the webhook holds workloads.
const (
	minimumMinor = 30
	policyMinor  = 36
)

// CheckServer looks at the version of the API server. reachable is false when it did not answer.
func (c *Cluster) CheckServer(context.Context) (finding Finding, reachable bool) {
	f := Finding{Check: "server", Level: LevelOK}
	info, err := c.client.Discovery().ServerVersion()
	if err != nil {
		f.Level = LevelError
		f.Message = fmt.Sprintf("The API server does not answer: %s.", causeText(err))
		f.Remedy = "Check the address and the credentials with: kubectl version."
		return f, false
	}
	f.Message = fmt.Sprintf("Kubernetes %s.", info.GitVersion)
	minor, ok := minorOf(info.Major, info.Minor)
	switch {
	case !ok || minor >= policyMinor:
	case minor >= minimumMinor:
		f.Message = fmt.Sprintf("Kubernetes %s. It does not serve MutatingAdmissionPolicy v1: the webhook is needed to hold a new version in the moment it is applied.",
			info.GitVersion)
	default:
		f.Level = LevelWarning
		f.Message = fmt.Sprintf("Kubernetes %s is older than what Sluice is made for.", info.GitVersion)
		f.Remedy = fmt.Sprintf("Use Kubernetes 1.%d or newer; from 1.%d on the webhook is not needed.", minimumMinor, policyMinor)
	}
	return f, true
}

// minorOf parses versions such as "1" and "36+". ok is false if the major version is not 1.
func minorOf(major, minor string) (n int, ok bool) {
	if major != "1" {
		return 0, false
	}
	_, err := fmt.Sscanf(minor, "%d", &n)
	return n, err == nil
}

// causeText is an error without the address of the request, which says nothing to a user.
func causeText(err error) string { return strings.TrimSuffix(err.Error(), ".") }

// unreadFinding is a finding about an object that could not be read.
func (c *Cluster) unreadFinding(check, what string, err error) Finding {
	f := Finding{Check: check, Level: LevelWarning, Message: fmt.Sprintf("%s could not be looked at: %s.", what, causeText(err))}
	if apierrors.IsForbidden(err) {
		f.Remedy = "Run sluice check as a user who may read it, or install the roles again: " + c.installRBAC()
	}
	return f
}

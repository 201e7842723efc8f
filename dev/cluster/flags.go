package main

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

//go:embed audit.yaml
var auditPolicy []byte

//go:embed kwok.yaml
var kwokConfig []byte

const (
	serviceCIDR = "10.0.0.0/16"
	// podCIDR has four million addresses, so that tests do not use them up.
	podCIDR = "10.128.0.0/10"
)

// idle are controllers without work in this cluster, which would only cost time. They handle volumes, certificates of kubelets, and Endpoints, which
// EndpointSlices have replaced.
var idle = []string{
	"certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller", "certificatesigningrequest-signing-controller",
	"endpoints-controller", "endpointslice-mirroring-controller",
	"ephemeral-volume-controller", "persistentvolume-attach-detach-controller", "persistentvolume-binder-controller",
	"persistentvolume-expander-controller", "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller",
	"legacy-serviceaccount-token-cleaner-controller", "ttl-controller",
}

func apiServerFlags(a *authority, opts options, port int, etcdURL string) ([]string, error) {
	flags := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + etcdURL,
		"--etcd-compaction-interval=5m",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--authorization-mode=RBAC",
		"--anonymous-auth=" + strconv.FormatBool(opts.anonymous),
		"--token-auth-file=" + a.path(tokensFile),
		"--tls-cert-file=" + a.path("apiserver.crt"),
		"--tls-private-key-file=" + a.path("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + a.path("sa.pub"),
		"--service-account-signing-key-file=" + a.path("sa.key"),
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
		"--profiling=false",
		verbosity(opts),
	}
	if !opts.audit {
		return flags, nil
	}
	policy := opts.auditPolicy
	if policy == "" {
		policy = a.path("audit-policy.yaml")
		if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
			return nil, fmt.Errorf("write the audit policy: %w", err)
		}
	}
	return append(flags,
		"--audit-policy-file="+policy,
		"--audit-log-path="+a.path("audit.log"),
		"--audit-log-mode=blocking-strict", // the server answers only after it has written the line
		"--audit-log-maxsize=1000000",      // megabytes: never rotated
	), nil
}

func controllerManagerFlags(a *authority, opts options, kubeconfig string) []string {
	qps, without := opts.controllerQPS, idle
	if !opts.typeChecks {
		without = append(slices.Clone(idle), "validatingadmissionpolicy-status-controller") // it spends a second on the policies of Sluice
	}
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--controllers=*,-" + strings.Join(without, ",-"),
		// Each controller has its own service account, as in a real cluster.
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + a.path("sa.key"),
		"--root-ca-file=" + a.path("ca.crt"),
		"--cluster-signing-cert-file=" + a.path("ca.crt"),
		"--cluster-signing-key-file=" + a.path("ca.key"),
		"--flex-volume-plugin-dir=" + a.path("flexvolume"),
		"--kube-api-qps=" + strconv.Itoa(qps),
		"--kube-api-burst=" + strconv.Itoa(2*qps),
		// kwok renews the leases; the long grace period is for a suspended machine.
		"--node-monitor-grace-period=10m",
		// Otherwise tests would wait 15 seconds for each sync of a HorizontalPodAutoscaler.
		"--horizontal-pod-autoscaler-sync-period=2s",
		verbosity(opts),
	}
}

func schedulerFlags(opts options, kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		verbosity(opts),
	}
}

func kwokFlags(a *authority, kubeconfig string) ([]string, error) {
	config := a.path("kwok.yaml")
	if err := os.WriteFile(config, kwokConfig, 0o600); err != nil {
		return nil, fmt.Errorf("write the stages of kwok: %w", err)
	}
	return []string{
		"--config=" + config,
		"--kubeconfig=" + kubeconfig,
		"--cidr=" + podCIDR,
		"--manage-all-nodes=true",
		"--node-lease-duration-seconds=40",
	}, nil
}

func verbosity(opts options) string {
	if opts.verbose {
		return "--v=3"
	}
	return "--v=0"
}

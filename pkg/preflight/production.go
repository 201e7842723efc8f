package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// productionCheck is the subject of the findings about the shape of an installation.
const productionCheck = "production"

// CheckProduction judges whether the installation in the cluster can carry production traffic: whether one lost pod or node stops releases, whether
// connections to NATS are encrypted, and who may open them. Each finding is a warning, and its remedy names the value of the Helm chart. Without a finding of
// this kind, it returns one that says so.
func (c *Cluster) CheckProduction(ctx context.Context) []Finding {
	shape, finding := c.readProductionShape(ctx)
	if finding != nil {
		return []Finding{*finding}
	}
	var findings []Finding
	warn := func(remedy, message string, args ...any) {
		findings = append(findings, Finding{Check: productionCheck, Level: LevelWarning, Message: fmt.Sprintf(message, args...), Remedy: remedy})
	}
	for _, program := range []string{"watcher", "executor", "analyzer"} {
		d := shape.deployment("sluice-" + program)
		if d == nil {
			warn("Install the programs in the cluster: docs/installing.md.", "There is no Deployment sluice-%s in %s. If the program runs on one machine, releases stop with it.",
				program, c.installation.Namespace)
			continue
		}
		shape.judgeProgram(program, d, warn)
	}
	shape.judgeNATS(warn)
	if len(findings) == 0 {
		return []Finding{{Check: productionCheck, Level: LevelOK, Message: "The programs and NATS survive the loss of a pod and of a node, and NATS is protected."}}
	}
	return findings
}

// productionShape is what an installation has in its namespace.
type productionShape struct {
	deployments  []appsv1.Deployment
	statefulSets []appsv1.StatefulSet
	budgets      []policyv1.PodDisruptionBudget
	networks     []networkingv1.NetworkPolicy
}

// readProductionShape returns a finding instead if the API server does not show everything.
func (c *Cluster) readProductionShape(ctx context.Context) (shape productionShape, unread *Finding) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	ns, all := c.installation.Namespace, metav1.ListOptions{}
	fail := func(what string, err error) *Finding {
		f := c.unreadFinding(productionCheck, what+" in "+ns, err)
		return &f
	}
	deployments, err := c.client.AppsV1().Deployments(ns).List(ctx, all)
	if err != nil {
		return shape, fail("Deployments", err)
	}
	statefulSets, err := c.client.AppsV1().StatefulSets(ns).List(ctx, all)
	if err != nil {
		return shape, fail("StatefulSets", err)
	}
	budgets, err := c.client.PolicyV1().PodDisruptionBudgets(ns).List(ctx, all)
	if err != nil {
		return shape, fail("PodDisruptionBudgets", err)
	}
	networks, err := c.client.NetworkingV1().NetworkPolicies(ns).List(ctx, all)
	if err != nil {
		return shape, fail("NetworkPolicies", err)
	}
	return productionShape{deployments.Items, statefulSets.Items, budgets.Items, networks.Items}, nil
}

func (s productionShape) deployment(name string) *appsv1.Deployment {
	if i := slices.IndexFunc(s.deployments, func(d appsv1.Deployment) bool { return d.Name == name }); i >= 0 {
		return &s.deployments[i]
	}
	return nil
}

// warner adds a warning.
type warner func(remedy, message string, args ...any)

func (s productionShape) judgeProgram(program string, d *appsv1.Deployment, warn warner) {
	pod := d.Spec.Template
	if n := ptr.Deref(d.Spec.Replicas, 1); n < 2 {
		warn(fmt.Sprintf("Run two: %s.replicas=2.", program), "Deployment %s has %d replicas. If its pod or its node goes, Sluice waits until another pod is ready.", d.Name, n)
	}
	s.judgePods(d.Name, program, pod, warn)
	if len(pod.Spec.Containers) == 0 {
		return
	}
	container := pod.Spec.Containers[0]
	if tag := imageTag(container.Image); tag == "" || tag == "latest" {
		warn("Name a version: image.tag or image.digest.", "Deployment %s runs the image %s. Its nodes may run different versions.", d.Name, container.Image)
	}
	if container.LivenessProbe == nil || container.ReadinessProbe == nil {
		warn("Use the probes of the shipped manifests: /healthz and /readyz.", "Deployment %s lacks a liveness or a readiness probe. The kubelet does not restart a program that hangs.", d.Name)
	}
	if !slices.ContainsFunc(container.Args, func(arg string) bool { return arg == "--nats-replicas=3" || arg == "--nats-replicas=5" }) {
		warn("Run NATS of three: nats.replicas=3.", "Deployment %s keeps one copy of each stream. While its NATS server is away, releases wait.", d.Name)
	}
	if !encryptsNATS(container) {
		warn("Give NATS a certificate: nats.tls.existingSecret.", "Deployment %s connects to NATS without TLS. A user who can read the network of the cluster can read decisions and the password.", d.Name)
	}
}

// judgePods judges what programs and NATS servers have in common. value is their part of the chart's values.
func (s productionShape) judgePods(name, value string, pod corev1.PodTemplateSpec, warn warner) {
	selects := func(selector *metav1.LabelSelector) bool {
		of, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && of.Matches(labels.Set(pod.Labels))
	}
	if !slices.ContainsFunc(s.budgets, func(b policyv1.PodDisruptionBudget) bool { return b.Spec.Selector != nil && selects(b.Spec.Selector) }) {
		warn(fmt.Sprintf("Create a PodDisruptionBudget: %s.podDisruptionBudget.enabled=true.", value), "No PodDisruptionBudget covers %s. A drain of nodes may evict all its pods at once.", name)
	}
	if !slices.ContainsFunc(s.networks, func(n networkingv1.NetworkPolicy) bool {
		return selects(&n.Spec.PodSelector) && slices.Contains(n.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
	}) {
		warn("Create NetworkPolicies: networkPolicy.enabled=true.", "No NetworkPolicy covers %s. Each pod of the cluster can connect to it.", name)
	}
	spec := pod.Spec
	spreads := len(spec.TopologySpreadConstraints) > 0 || spec.Affinity != nil && spec.Affinity.PodAntiAffinity != nil
	if !spreads {
		warn(fmt.Sprintf("Spread the pods: %s.topologySpreadConstraints.", value), "The pods of %s may all run on one node.", name)
	}
	for _, container := range spec.Containers {
		if container.Resources.Requests.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() || container.Resources.Limits.Memory().IsZero() {
			warn(fmt.Sprintf("Set them: %s.resources.", value), "Container %s of %s lacks a request for CPU or memory, or a limit for memory.", container.Name, name)
		}
		own, whole := container.SecurityContext, spec.SecurityContext
		nonRoot := own != nil && ptr.Deref(own.RunAsNonRoot, false) || whole != nil && ptr.Deref(whole.RunAsNonRoot, false)
		if readOnly := own != nil && ptr.Deref(own.ReadOnlyRootFilesystem, false); !nonRoot || !readOnly {
			warn("Use the security contexts of the shipped manifests: podSecurityContext and securityContext.", "Container %s of %s may run as root, or may write to its image.", container.Name, name)
		}
	}
}

// judgeNATS judges the servers of the chart or of the manifests. It does not see other servers.
func (s productionShape) judgeNATS(warn warner) {
	for _, set := range s.statefulSets {
		if !strings.HasPrefix(set.Name, "sluice-nats") {
			continue
		}
		if n := ptr.Deref(set.Spec.Replicas, 1); n < 3 {
			warn("Run NATS of three: nats.replicas=3.", "StatefulSet %s has %d replicas. While its server is away, releases wait.", set.Name, n)
		}
		if len(set.Spec.VolumeClaimTemplates) == 0 {
			warn("Give each server a volume: the chart does.", "StatefulSet %s has no volumes. A restart of all servers loses hints and approvals on their way.", set.Name)
		}
		s.judgePods(set.Name, "nats", set.Spec.Template, warn)
	}
}

// imageTag returns the tag or the digest of an image, "" if it has neither.
func imageTag(image string) string {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return digest
	}
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// encryptsNATS reports whether a program connects to NATS by TLS only.
func encryptsNATS(container corev1.Container) bool {
	for _, arg := range container.Args {
		if strings.HasPrefix(arg, "--nats-url=tls://") {
			return true
		}
	}
	return slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "NATS_URL" && strings.HasPrefix(v.Value, "tls://") })
}

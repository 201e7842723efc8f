package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

const examples = "examples/seeds/istio-walkthrough/"

// begin starts the control plane, installs Sluice and starts it.
func (s *show) begin(ctx context.Context, options controlplane.Options) error {
	if err := s.stage("Start the control plane", func() (err error) {
		s.cluster, err = controlplane.Start(ctx, options)
		return err
	}); err != nil {
		return err
	}
	if err := s.stage("Install Sluice: CRDs, admission policies, RBAC", func() error { return s.install(ctx) }); err != nil {
		return err
	}
	return s.stage("Start Sluice: watcher, executor and analyzer, under the shipped RBAC", func() error { return s.startSluice() })
}

func (s *show) install(ctx context.Context) error {
	s.say("$ sluice install --print | kubectl apply --server-side -f -")
	manifests, err := s.run(ctx, "install", "--print")
	if err != nil {
		return err
	}
	out, err := s.cluster.KubectlStdin(ctx, manifests, "apply", "--server-side", "-f", "-")
	if err != nil {
		return err
	}
	s.say("  %d objects", strings.Count(out, "\n"))
	return nil
}

// walk runs the walkthrough of the document, command by command.
func (s *show) walk(ctx context.Context) error {
	steps := []struct {
		name string
		do   func() error
	}{
		{"Deploy version base", func() error { return s.deploy(ctx) }},
		{"Change the Deployment: the release begins and stops at step 1", func() error {
			if err := s.kubectl(ctx, "patch", "deployment", "workload-demo", "-p",
				`{"spec":{"template":{"spec":{"containers":[{"name":"nginx", "env":[{"name":"version", "value":"canary"}]}]}}}}`); err != nil {
				return err
			}
			return s.reach(ctx, pausedAt(1))
		}},
		{"Approve step 1", func() error { return s.approve(ctx, pausedAt(2)) }},
		{"Approve step 2", func() error { return s.approve(ctx, pausedAt(3)) }},
		{"Approve step 3: everything is restored", func() error { return s.approve(ctx, healthy) }},
	}
	for _, step := range steps {
		if err := s.stage(step.name, step.do); err != nil {
			return err
		}
	}
	return s.stage("Remaining objects: none of the release", func() error {
		return s.kubectl(ctx, "get", "deployments,services,virtualservices", "-o", "name")
	})
}

func (s *show) deploy(ctx context.Context) error {
	for _, file := range []string{"workload.yaml", "virtualservice.yaml", "rollout.yaml"} {
		if err := s.kubectl(ctx, "apply", "-f", examples+file); err != nil {
			return err
		}
	}
	if err := s.await(ctx, "rollouts-demo", healthy); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", "--for=condition=Available", "deployment/workload-demo"); err != nil {
		return err
	}
	if err := s.armed(ctx, "workload-demo"); err != nil {
		return err
	}
	return s.showRoute(ctx)
}

// armed waits until the API server holds changes. It loads policies a moment after their creation.
func (s *show) armed(ctx context.Context, deployment string) error {
	for range 200 {
		out, err := s.cluster.Kubectl(ctx, "patch", "deployment", deployment, "--dry-run=server", "-o", "jsonpath={.spec.paused}",
			"-p", `{"spec":{"template":{"metadata":{"annotations":{"probe":"x"}}}}}`)
		if err != nil {
			return err
		}
		if out == "true" {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the admission policies do not hold a change of Deployment %s", deployment)
}

func (s *show) approve(ctx context.Context, next goal) error {
	if err := s.command(ctx, "approve", "rollouts-demo"); err != nil {
		return err
	}
	return s.reach(ctx, next)
}

// reach waits for a goal and shows the release at that point.
func (s *show) reach(ctx context.Context, g goal) error {
	if err := s.await(ctx, "rollouts-demo", g); err != nil {
		return err
	}
	if err := s.command(ctx, "get", "rollout", "rollouts-demo", "--no-color"); err != nil {
		return err
	}
	return s.showRoute(ctx)
}

// goal reports whether the release has reached the state that the demo waits for.
type goal func(api.RolloutStatus) bool

func pausedAt(step int32) goal {
	return func(st api.RolloutStatus) bool {
		return st.CurrentStepState == api.StepPaused && st.CurrentStepIndex == step && st.Phase == api.PhaseProgressing
	}
}

func healthy(st api.RolloutStatus) bool { return st.Phase == api.PhaseHealthy }

// await watches a Rollout until it reaches a goal.
func (s *show) await(ctx context.Context, name string, g goal) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := dynamic.NewForConfig(s.cluster.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	rollouts := client.Resource(api.RolloutResource()).Namespace("default")
	// A watch that ends while it connects logs an error.
	if u, err := rollouts.Get(ctx, name, metav1.GetOptions{}); err == nil {
		if st, err := statusOf(u); err == nil && g(st) {
			return nil
		}
	}
	events, err := controlplane.Watch(ctx, rollouts, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return fmt.Errorf("watch the Rollout: %w", err)
	}
	defer events.Stop()
	var last api.RolloutStatus
	for e := range events.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if last, err = statusOf(u); err != nil {
			return err
		}
		if g(last) {
			return nil
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("wait for Rollout %s: %w", name, ctx.Err())
	}
	return fmt.Errorf("the release did not get there within %s; it is %s at step %d (%s): %s",
		patience, last.Phase, last.CurrentStepIndex, last.CurrentStepState, last.Message)
}

// statusOf returns the status of a Rollout.
func statusOf(u *unstructured.Unstructured) (st api.RolloutStatus, err error) {
	body, err := json.Marshal(u.Object["status"])
	if err == nil {
		err = json.Unmarshal(body, &st)
	}
	if err != nil {
		return st, fmt.Errorf("read the Rollout: %w", err)
	}
	return st, nil
}

// toYAML converts the output of kubectl's jsonpath-as-json, a list with one element, to YAML.
func toYAML(text string) (string, error) {
	var list []any
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		return "", fmt.Errorf("read %q as a list of one: %w", text, err)
	}
	body, err := yaml.Marshal(list[0])
	return string(body), err
}

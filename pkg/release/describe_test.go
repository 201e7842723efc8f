package release_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
)

func TestAStepIsDescribedByEachOfItsFields(t *testing.T) {
	t.Parallel()
	var r api.Rollout
	const manifest = `
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      trafficRoutings: [{service: web, ingress: {name: web}}]
      steps:
      - {replicas: 1, mirror: {traffic: 20%}, pause: {duration: 60}}
      - {replicas: 1, mirror: {}}
      - {replicas: 2, matches: [{headers: [{name: user, value: kim}], path: {value: /new}}], requestHeaderModifier: {set: [{name: a, value: b}]}}
      - {replicas: 50%, traffic: 50%, analysis: {templates: [{name: errors}], autoPromote: true}}
      - {replicas: 50%, traffic: 60%, pause: {duration: 0}, analysis: {templates: [{name: errors}]}}
      - {replicas: 100%, pause: {duration: 90}}
`
	if err := yaml.Unmarshal([]byte(manifest), &r); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"replicas 1, mirrors 20% of the requests, for 1m0s",
		"replicas 1, mirrors 100% of the requests, until approved",
		"replicas 2, requests with path=/new and user=kim, headers changed, until approved",
		"replicas 50%, traffic 50%, until its metrics pass",
		"replicas 50%, traffic 60%, analysis",
		"replicas 100%", // the last step passes with all pods
	}
	if diff := cmp.Diff(want, release.DescribeSteps(&r)); diff != "" {
		t.Errorf("the steps are described as (-want +got):\n%s", diff)
	}
}

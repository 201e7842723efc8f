package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/workload"
)

func templateOf(t *testing.T, spec string) (template corev1.PodTemplateSpec) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(spec), &template.Spec); err != nil {
		t.Fatal(err)
	}
	return template
}

func TestWhatATemplateNeedsIsFoundWhereverItIsNamed(t *testing.T) {
	t.Parallel()
	template := templateOf(t, `
serviceAccountName: web
imagePullSecrets: [{name: registry}]
volumes:
- {name: a, configMap: {name: files}}
- {name: b, secret: {secretName: keys}}
- {name: e, configMap: {name: ../../kube-system/configmaps/other}}
- {name: c, configMap: {name: spare, optional: true}}
- {name: d, projected: {sources: [{configMap: {name: part}}, {secret: {name: token}}, {secret: {name: maybe, optional: true}}]}}
initContainers:
- {name: init, envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: passwords}}]}
containers:
- name: web
  envFrom: [{configMapRef: {name: settings}}, {configMapRef: {name: other, optional: true}}]
  env:
  - {name: A, valueFrom: {configMapKeyRef: {name: keyed, key: a}}}
  - {name: B, valueFrom: {secretKeyRef: {name: sealed, key: b}}}
  - {name: C, value: plain}
`)
	want := []workload.RequiredObject{
		{Kind: "ConfigMap", Name: "files"}, {Kind: "ConfigMap", Name: "keyed"}, {Kind: "ConfigMap", Name: "part"}, {Kind: "ConfigMap", Name: "settings"},
		{Kind: "Secret", Name: "keys"}, {Kind: "Secret", Name: "passwords"}, {Kind: "Secret", Name: "sealed"}, {Kind: "Secret", Name: "token"},
		{Kind: "ServiceAccount", Name: "web"},
	}
	if diff := cmp.Diff(want, workload.RequiredObjects(template)); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	newer := templateOf(t, `{serviceAccountName: web, imagePullSecrets: [{name: registry}], volumes: [{name: a, configMap: {name: files-2}}], containers: [{name: web, envFrom: [{secretRef: {name: keys}}]}]}`)
	left := workload.RequiredByOlder(templateOf(t, `{serviceAccountName: web, volumes: [{name: a, configMap: {name: files-1}}, {name: b, secret: {secretName: keys}}], containers: []}`), newer)
	if diff := cmp.Diff([]workload.RequiredObject{{Kind: "ConfigMap", Name: "files-1"}}, left); diff != "" {
		t.Errorf("what only the older template needs (-want +got):\n%s", diff)
	}
	if none := workload.RequiredObjects(templateOf(t, `{serviceAccountName: default, containers: [{name: web}]}`)); len(none) > 0 {
		t.Errorf("a plain template needs %v", none)
	}
}

func TestNamesThatEndInADigestAreKnown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"web-config-7b2fk9mgtd": true, "web-5d41402abc4b2a76": true, "web-config": false, "web-configurator": false, "web-2026": false, "7b2fk9mgtd": false,
	} {
		if got := (workload.RequiredObject{Kind: "ConfigMap", Name: name}).HasGeneratedName(); got != want {
			t.Errorf("%s ends in a digest: %t, not %t", name, got, want)
		}
	}
}

func TestTheToolThatPrunesAnObjectIsKnown(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		labels, annotations map[string]string
		tool                string
		kept                bool
	}{
		"nobody":                          {nil, nil, "", false},
		"Flux":                            {map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps"}, nil, "Flux", false},
		"Flux, kept":                      {map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps"}, map[string]string{"kustomize.toolkit.fluxcd.io/prune": "disabled"}, "Flux", true},
		"Flux, kept by a label":           {map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/prune": "Disabled"}, nil, "Flux", true},
		"Argo CD":                         {nil, map[string]string{"argocd.argoproj.io/tracking-id": "apps:/ConfigMap:shop/web"}, "Argo CD", false},
		"Argo CD, by a label":             {map[string]string{"argocd.argoproj.io/instance": "apps"}, nil, "Argo CD", false},
		"Argo CD, kept":                   {nil, map[string]string{"argocd.argoproj.io/tracking-id": "a", "argocd.argoproj.io/sync-options": "Validate=false, Prune=false"}, "Argo CD", true},
		"Argo CD, pruned last":            {nil, map[string]string{"argocd.argoproj.io/tracking-id": "a", "argocd.argoproj.io/sync-options": "PruneLast=true"}, "Argo CD", false},
		"Helm":                            {nil, map[string]string{"meta.helm.sh/release-name": "web"}, "Helm", false},
		"Helm, kept":                      {nil, map[string]string{"meta.helm.sh/release-name": "web", "helm.sh/resource-policy": "keep"}, "Helm", true},
		"what Flux installs with a chart": {map[string]string{"helm.toolkit.fluxcd.io/name": "web"}, nil, "Helm", false},
	} {
		pruner, kept := workload.PrunerOf(&metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations})
		if pruner.Tool != test.tool || kept != test.kept {
			t.Errorf("%s: %q, kept %t; want %q, %t", what, pruner.Tool, kept, test.tool, test.kept)
		}
	}
}

func TestWhatOnlyAnOlderRevisionOfAWorkloadNeedsIsFound(t *testing.T) {
	t.Parallel()
	for _, shape := range []shape{statefulSet, cloneSet, daemonSet} {
		o := shape.object(image("web:2"), set("[{name: a, configMap: {name: files-2}}]", "spec", "template", "spec", "volumes"))
		older := revisionOf("web-a", 1, "web:1")
		older.Data.Raw = []byte(strings.Replace(string(older.Data.Raw), `"containers"`, `"volumes":[{"name":"a","configMap":{"name":"files-1"}}],"containers"`, 1))
		o.Revisions = []*appsv1.ControllerRevision{older, revisionOf("web-b", 2, "web:2")}
		hash := "web-a"
		if shape.kind != statefulSet.kind {
			hash = "a"
		}
		if diff := cmp.Diff([]workload.RequiredObject{{Kind: "ConfigMap", Name: "files-1"}}, o.RequiredByOlder(hash)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", shape.kind, diff)
		}
		if none := o.RequiredByOlder("c"); none != nil {
			t.Errorf("%s needs %v of a revision that there is not", shape.kind, none)
		}
	}
}

package hold_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// write is a way in which a user changes a Deployment by kubectl. {name} stands for the Deployment, and {1}, {2} and
// {3} for a file with the user's manifest with that image. {undo} stands for the template of image 1.
type write struct {
	args string
	// body is the patch, if the write is one.
	body string
	// image of the Deployment afterwards.
	image string
	// says is the text of an error of kubectl itself.
	says string
	// unchanged reports that not even the resourceVersion may change.
	unchanged bool
	// managed reports that kubectl apply created the Deployment, which then has a last-applied configuration.
	managed bool
}

func everyWayToChangeTheTemplateIsHeld(t *testing.T, b *bench) {
	for name, w := range map[string]write{
		"set image":         {args: "set image deployment/{name} main=demo:2", image: "demo:2"},
		"set env":           {args: "set env deployment/{name} A=b", image: "demo:1"},
		"set resources":     {args: "set resources deployment/{name} --limits=cpu=1", image: "demo:1"},
		"rollout restart":   {args: "rollout restart deployment/{name}", image: "demo:1"},
		"replace":           {args: "replace -f {2}", image: "demo:2"},
		"client-side apply": {args: "apply -f {2}", image: "demo:2", managed: true},
		"server-side apply": {args: "apply --server-side --force-conflicts -f {2}", image: "demo:2"},
		"server-side apply of an owner": {args: "apply --server-side --force-conflicts --field-manager=argocd-controller -f {2}", image: "demo:2",
			managed: true},
		"strategic patch": {args: "patch deployment {name} -p", image: "demo:2",
			body: `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"demo:2"}]}}}}`},
		"merge patch that pauses not": {args: "patch deployment {name} --type=merge -p", image: "demo:2",
			body: `{"spec":{"paused":null,"template":{"spec":{"containers":[{"name":"main","image":"demo:2"}]}}}}`},
		"JSON patch": {args: "patch deployment {name} --type=json -p", image: "demo:2",
			body: `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"demo:2"}]`},
		"JSON patch that takes all annotations and labels": {args: "patch deployment {name} --type=json -p", image: "demo:2",
			body: `[{"op":"remove","path":"/metadata/annotations"},{"op":"remove","path":"/metadata/labels"},
				{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"demo:2"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := objectName(t)
			files := manifests(t, object)
			if w.managed {
				b.kubectl(t, "", "apply", "-f", files["{1}"])
				b.patch(t, object, types.MergePatchType, adoption(object))
			} else {
				b.create(t, object, adopted)
			}
			witness := b.watchFrom(t, b.get(t, object))
			b.run(t, w, object, files)
			got := b.get(t, object)
			if !isHeld(got) || image(got) != w.image {
				t.Errorf("it is held %t with image %s:\n%v", isHeld(got), image(got), got.Object)
			}
			witness.testify(t, "demo:1")
		})
	}
}

func aRolloutUndoIsHeld(t *testing.T, b *bench) {
	created := b.create(t, "undo")
	rolled := func(u *unstructured.Unstructured) bool {
		return observed(u) && progressing(u) == "NewReplicaSetAvailable"
	}
	b.await(t, created, "rolled out", rolled)
	changed := b.patch(t, "undo", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"demo:2"}]}}}}`)
	b.await(t, changed, "rolled out", rolled)
	witness := b.watchFrom(t, b.patch(t, "undo", types.MergePatchType, adoption("undo")))
	b.kubectl(t, "", "rollout", "undo", "deployment/undo")
	if got := b.get(t, "undo"); !isHeld(got) || image(got) != "demo:1" {
		t.Errorf("it is held %t with image %s", isHeld(got), image(got))
	}
	witness.testify(t, "demo:2")
}

func anEditIsHeldAndCannotLetGo(t *testing.T, b *bench) {
	b.create(t, "edited", adopted)
	witness := b.watchFrom(t, b.get(t, "edited"))
	b.edit(t, "sed -i s/demo:1/demo:2/", "edited")
	b.edit(t, `sed -i -e /paused:/d -e /in-progressing/d -e /workload-type/d -e /sluice.dev/d`, "edited")
	if got := b.get(t, "edited"); !isHeld(got) || image(got) != "demo:2" {
		t.Errorf("it is held %t with image %s", isHeld(got), image(got))
	}
	witness.testify(t, "demo:1")
}

func noWriteOfAUserLetsGo(t *testing.T, b *bench) {
	for name, w := range map[string]write{
		"client-side apply again":   {args: "apply -f {2}", image: "demo:2"},
		"server-side apply again":   {args: "apply --server-side --force-conflicts -f {2}", image: "demo:2"},
		"replace again":             {args: "replace -f {2}", image: "demo:2", unchanged: true},
		"client-side apply another": {args: "apply -f {3}", image: "demo:3"},
		"server-side apply another": {args: "apply --server-side --force-conflicts -f {3}", image: "demo:3"},
		"replace by another":        {args: "replace -f {3}", image: "demo:3"},
		"replace by the old one":    {args: "replace -f {1}", image: "demo:1"},
		"set image":                 {args: "set image deployment/{name} main=demo:3", image: "demo:3"},
		"rollout resume":            {args: "rollout resume deployment/{name}", image: "demo:2", unchanged: true},
		"rollout pause":             {args: "rollout pause deployment/{name}", image: "demo:2", unchanged: true, says: "already paused"},
		"rollout undo":              {args: "rollout undo deployment/{name}", image: "demo:2", unchanged: true, says: "no rollout history"},
		"rollout restart":           {args: "rollout restart deployment/{name}", image: "demo:2", unchanged: true, says: "paused"},
		"scale":                     {args: "scale deployment/{name} --replicas=3", image: "demo:2"},
		"annotate in-progressing-": {args: "annotate deployment/{name} rollouts.kruise.io/in-progressing-", image: "demo:2",
			unchanged: true},
		"annotate in-progressing as another": {args: "annotate deployment/{name} --overwrite rollouts.kruise.io/in-progressing=x", image: "demo:2", unchanged: true},
		"annotate rollout-":                  {args: "annotate deployment/{name} sluice.dev/rollout-", image: "demo:2", unchanged: true},
		"annotate original.paused":           {args: "annotate deployment/{name} sluice.dev/original.paused=true", image: "demo:2"},
		"label workload-type-":               {args: "label deployment/{name} rollouts.kruise.io/workload-type-", image: "demo:2", unchanged: true},
		"patch paused false": {args: "patch deployment {name} --type=merge -p", body: `{"spec":{"paused":false}}`,
			image: "demo:2", unchanged: true},
		"patch paused null": {args: "patch deployment {name} --type=merge -p", body: `{"spec":{"paused":null}}`,
			image: "demo:2", unchanged: true},
		"JSON patch of paused": {args: "patch deployment {name} --type=json -p", body: `[{"op":"remove","path":"/spec/paused"}]`,
			image: "demo:2", unchanged: true},
		"JSON patch of all annotations": {args: "patch deployment {name} --type=json -p",
			body: `[{"op":"replace","path":"/metadata/annotations","value":{}}]`, image: "demo:2", unchanged: true},
		"JSON patch as a rollout undo sends it": {args: "patch deployment {name} --type=json -p", image: "demo:1",
			body: `[{"op":"replace","path":"/spec/template","value":{undo}},
				{"op":"replace","path":"/metadata/annotations","value":{"deployment.kubernetes.io/revision":"1"}}]`},
		"JSON patch without annotations, labels and paused": {args: "patch deployment {name} --type=json -p", image: "demo:2", unchanged: true,
			body: `[{"op":"remove","path":"/metadata/annotations"},{"op":"remove","path":"/metadata/labels"},{"op":"remove","path":"/spec/paused"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := objectName(t)
			held := b.hold(t, object)
			witness := b.watchFrom(t, held)
			b.run(t, w, object, manifests(t, object))
			got := b.get(t, object)
			if w.unchanged && got.GetResourceVersion() != held.GetResourceVersion() {
				t.Errorf("it was changed, from\n%v\nto\n%v", held.Object, got.Object)
			}
			if image(got) != w.image {
				t.Errorf("the image is %s, not %s", image(got), w.image)
			}
			for _, u := range append(witness.testify(t, "demo:1"), got) {
				if !isHeld(u) {
					t.Errorf("version %s is not held", u.GetResourceVersion())
				}
			}
		})
	}
}

// run makes the write by kubectl.
func (b *bench) run(t testing.TB, w write, name string, files map[string]string) {
	t.Helper()
	args := strings.Fields(w.args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{name}", name)
		if file, is := files[args[i]]; is {
			args[i] = file
		}
	}
	if w.body != "" {
		undo := fmt.Sprintf(`{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"main","image":"demo:1"}]}}`, name)
		args = append(args, strings.ReplaceAll(w.body, "{undo}", undo))
	}
	_, err := b.tryKubectl(t.Context(), "", args...)
	switch {
	case w.says == "" && err != nil:
		t.Fatal(err)
	case w.says != "" && (err == nil || !strings.Contains(err.Error(), w.says)):
		t.Fatalf("kubectl %s did not say %q but %v", w.args, w.says, err)
	}
}

// manifests writes the user's manifests of three images to files.
func manifests(t testing.TB, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, tag := range []string{"1", "2", "3"} {
		path := filepath.Join(t.TempDir(), tag+".yaml")
		if err := os.WriteFile(path, []byte(manifestText(name, "demo:"+tag)), 0o600); err != nil {
			t.Fatal(err)
		}
		files["{"+tag+"}"] = path
	}
	return files
}

func adoption(name string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/workload-type":"deployment"},"annotations":{"sluice.dev/rollout":%q}}}`, name)
}

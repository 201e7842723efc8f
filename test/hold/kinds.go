package hold

import (
	"cmp"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
)

// Kind is a kind of workload that is held by its update strategy, with its cases.
type Kind struct {
	Name     string
	Resource schema.GroupVersionResource
	Cases    []Case
}

// kindFile is the form of testdata/kinds.yaml.
type kindFile struct {
	Name, Label              string
	Manifest, Spec           map[string]any
	Resource                 struct{ Group, Version, Resource string }
	Own, Held, Rolling, Wish map[string]any
	// Wide is the spec of a workload with one surge replica.
	Wide              map[string]any
	Originals, Wished map[string]string
}

// Kinds reads the table of all kinds except Deployments.
func Kinds(t testing.TB) []Kind {
	t.Helper()
	text, err := testdata.ReadFile("testdata/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var files []kindFile
	if err := yaml.UnmarshalStrict(text, &files); err != nil {
		t.Fatalf("parse kinds.yaml: %v", err)
	}
	var kinds []Kind
	for _, f := range files {
		r := f.Resource
		kinds = append(kinds, Kind{
			Name: f.Name, Resource: schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource},
			Cases: f.cases(t),
		})
	}
	return kinds
}

// state is one workload. Each part may be left out.
type state struct {
	image       string
	strategy    map[string]any
	adopted     bool
	inProgress  bool
	originals   map[string]string
	annotations map[string]string
	spec        map[string]any
}

func (f kindFile) object(t testing.TB, s state) *unstructured.Unstructured {
	annotations, labels := map[string]any{}, map[string]any{}
	if s.adopted {
		labels[api.LabelWorkloadType] = cmp.Or(f.Label, "any")
		annotations[api.AnnotationRollout] = "shop"
	}
	if s.inProgress {
		annotations[api.AnnotationInProgressing] = `{"rolloutName":"shop"}`
	}
	for field, value := range s.originals {
		annotations[api.AnnotationOriginalPrefix+field] = value
	}
	for key, value := range s.annotations {
		annotations[key] = value
	}
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": s.image}}},
		},
	}
	maps.Copy(spec, f.Spec)
	maps.Copy(spec, s.spec)
	if len(s.strategy) > 0 {
		spec["updateStrategy"] = s.strategy
	}
	metadata := map[string]any{"name": "web"}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	return object(t, merge(f.Manifest, map[string]any{"metadata": metadata, "spec": spec}))
}

// letGo returns the user's strategy after the end of a hold on a template that was not new. If the hold created an object
// for its field, the empty object stays.
func (f kindFile) letGo() map[string]any {
	_, had := f.Own["rollingUpdate"]
	if _, nested := f.Held["rollingUpdate"]; nested && !had {
		own := map[string]any{"rollingUpdate": map[string]any{}}
		maps.Copy(own, f.Own)
		return own
	}
	return f.Own
}

// cases returns the cases of every kind.
func (f kindFile) cases(t testing.TB) []Case {
	const one, two, three = "web:1", "web:2", "web:3"
	own := state{image: one, strategy: f.Own}
	adopted := state{image: one, strategy: f.Own, adopted: true}
	held := state{image: two, strategy: f.Held, adopted: true, inProgress: true, originals: f.Originals}
	rolling := held
	rolling.strategy = f.Rolling
	with := func(s state, change func(*state)) state { change(&s); return s }
	// ids are the rollout-ids of the workload and of its stable version, "" for none.
	ids := func(id, stable string) func(*state) {
		return func(s *state) {
			s.annotations = map[string]string{api.AnnotationRolloutID: id}
			if stable != "" {
				s.annotations[api.AnnotationStableRolloutID] = stable
			}
		}
	}
	note := map[string]string{"note": "mine"}
	executor := api.DefaultInstallation().ExecutorUser()

	type write struct {
		name, user     string
		old, new, want state
	}
	list := []write{
		{"a new image is held in the same request", "alice", adopted, with(adopted, func(s *state) { s.image = two }), held},
		{"a replace by a manifest that knows nothing of us is held and stays adopted", "alice", adopted, with(own, func(s *state) { s.image = two }), held},
		{"a replace that drops our marks alone changes nothing", "alice", adopted, own, adopted},
		{"another strategy alone is no release", "alice", adopted, with(own, func(s *state) { s.strategy = f.Held }), with(adopted, func(s *state) { s.strategy = f.Held })},
		{"under the rollout-id of the stable version a new template is no release", "alice", with(adopted, ids("v1", "v1")),
			with(own, func(s *state) { s.image = two; ids("v1", "")(s) }), with(adopted, func(s *state) { s.image = two; ids("v1", "v1")(s) })},
		{"a version that was taken back by its template alone is held when it comes again", "alice", with(adopted, ids("v2", "v1")),
			with(own, func(s *state) { s.image = two; ids("v2", "")(s) }), with(held, ids("v2", "v1"))},
		{"a version that was taken back with its rollout-id is held when it comes again", "alice", with(adopted, ids("v1", "v1")),
			with(own, func(s *state) { s.image = two; ids("v2", "")(s) }), with(held, ids("v2", "v1"))},
		{"while it rolls a new template under the rollout-id of the stable version is held again", "alice", with(rolling, ids("v1", "v1")),
			with(own, func(s *state) { s.image = three; ids("v1", "")(s) }), with(held, func(s *state) { s.image = three; ids("v1", "v1")(s) })},
		{"nobody says with a new template which rollout-id the stable version has", "alice", with(adopted, ids("v1", "")),
			with(adopted, func(s *state) { s.image = two; ids("v1", "v1")(s) }), with(held, ids("v1", ""))},
		{"a manifest exported in the middle of a release brings the originals with it", "alice", adopted, held, held},
		{"marks of a release cannot be put on by hand", "alice", adopted,
			with(adopted, func(s *state) { s.inProgress = true; s.originals = f.Originals }), adopted},
		{"the executor changes a pod template unheld", executor, adopted, with(adopted, func(s *state) { s.image = two }), with(adopted, func(s *state) { s.image = two })},
		{"in progress a replace by the same manifest changes nothing", "alice", held, with(own, func(s *state) { s.image = two }), held},
		{"while it rolls a replace by the same manifest changes nothing", "alice", rolling, with(own, func(s *state) { s.image = two }), rolling},
		{"in progress other annotations are the user's", "alice", rolling,
			with(own, func(s *state) { s.image = two; s.annotations = note }), with(rolling, func(s *state) { s.annotations = note })},
		{"while it rolls a new template is held again", "alice", rolling, with(own, func(s *state) { s.image = three }), with(held, func(s *state) { s.image = three })},
		{"while it rolls a new template alone is held again", "alice", rolling, with(rolling, func(s *state) { s.image = three }), with(held, func(s *state) { s.image = three })},
		{"while it rolls the old template is held again", "alice", rolling, own, with(held, func(s *state) { s.image = one })},
		{"while it rolls what a hold puts there is no wish", "alice", rolling, with(own, func(s *state) { s.image, s.strategy = two, f.Held }), rolling},
		{"what was held before a webhook added what the template lacks is let go", "alice", adopted,
			with(adopted, func(s *state) { s.inProgress, s.originals, s.strategy = true, f.Originals, f.Held }),
			with(adopted, func(s *state) { s.strategy = f.letGo() })},
		{"in progress the originals cannot be taken off", "alice", rolling, with(rolling, func(s *state) { s.originals = nil }), rolling},
		{"the executor lets go", executor, rolling, with(adopted, func(s *state) { s.image = two }), with(adopted, func(s *state) { s.image = two })},
		{"what nobody adopted is not touched", "alice", own, with(own, func(s *state) { s.image = two }), with(own, func(s *state) { s.image = two })},
	}
	if f.Wish != nil {
		remembered := with(rolling, func(s *state) { s.originals = f.Wished })
		list = append(list,
			write{"in progress another strategy is remembered and not in force", "alice", rolling,
				with(own, func(s *state) { s.image, s.strategy = two, f.Wish }), remembered},
			write{"a strategy that is remembered stays so when the same manifest comes again", "alice", remembered,
				with(own, func(s *state) { s.image, s.strategy = two, f.Wish }), remembered},
			write{"a new template brings another strategy, which is remembered", "alice", rolling,
				with(own, func(s *state) { s.image, s.strategy = three, f.Wish }),
				with(remembered, func(s *state) { s.image, s.strategy = three, f.Held })},
		)
	}
	if f.Spec["replicas"] != nil {
		none := map[string]any{"replicas": 0}
		list = append(list, write{"nothing runs at zero replicas so nothing is held", "alice",
			with(adopted, func(s *state) { s.spec = none }), with(own, func(s *state) { s.spec, s.image = none, two }),
			with(adopted, func(s *state) { s.spec, s.image = none, two })})
	}
	if _, partition := f.Originals["partition"]; partition && f.Held["rollingUpdate"] != nil {
		onDelete := map[string]any{"type": "OnDelete"}
		wants := map[string]string{"type": "OnDelete"}
		maps.Copy(wants, f.Originals)
		list = append(list,
			write{"one of update type OnDelete is left alone", "alice", with(adopted, func(s *state) { s.strategy = onDelete }),
				with(own, func(s *state) { s.image, s.strategy = two, onDelete }), with(adopted, func(s *state) { s.image, s.strategy = two, onDelete })},
			write{"in progress a wish for OnDelete is remembered and not in force", "alice", rolling,
				with(own, func(s *state) { s.image, s.strategy = two, onDelete }), with(rolling, func(s *state) { s.originals = wants })},
		)
	}
	for _, c := range f.widened(rolling) {
		list = append(list, write{c.name, "alice", c.old, c.new, c.want})
	}
	var cases []Case
	for _, c := range list {
		cases = append(cases, Case{Name: c.name, User: c.user, Old: f.object(t, c.old), New: f.object(t, c.new), Want: f.object(t, c.want)})
	}
	return cases
}

package traffic

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/script"
)

// Script renders one release into the content of an object. If labels or annotations of its output are nil, the object keeps the ones of the input. An
// empty map removes them all.
type Script func(script.Input) (script.Output, error)

// LuaScript returns a script that runs the program of a source, bounded by the default limits and by ctx. The script returns an error for a request that
// its kind cannot express.
func LuaScript(ctx context.Context, source script.Source) Script {
	return func(in script.Input) (script.Output, error) { return source.Render(ctx, in, script.Limits{}) }
}

// ScriptContext is the input of a script about objects other than the one that it shapes.
type ScriptContext struct {
	Features []string             // the features that the class of the object's Gateway supports; nil when unknown
	Unserved string               // why no Gateway of the object serves its kind; "" when one does, or when that is unknown
	Class    *script.IngressClass // the class of the object; nil when unknown
	Reads    []any                // the objects that it refers to, of the kinds that the script reads
}

// AddTo returns a script that gets s in its input.
func (s ScriptContext) AddTo(run Script) Script {
	if run == nil {
		return nil
	}
	return func(in script.Input) (script.Output, error) {
		in.Features, in.Unserved, in.Class, in.Reads = s.Features, s.Unserved, s.Class, s.Reads
		return run(in)
	}
}

// MissingBackend is an absent backend that a canary's requests would need: an object of a kind, with the name of the canary Service.
type MissingBackend struct{ Kind, CanaryService string }

// RefuseMissingBackends returns a script that refuses to route requests to a canary whose backend is absent.
func RefuseMissingBackends(absent []MissingBackend, run Script) Script {
	if run == nil || len(absent) == 0 {
		return run
	}
	return func(in script.Input) (script.Output, error) {
		leads := in.CanaryPercent() > 0 || len(in.Matches) > 0 || in.Mirror > 0
		for _, of := range absent {
			if leads && of.CanaryService == in.CanaryService {
				return script.Output{}, &script.UnsupportedError{Reason: fmt.Sprintf(
					"%s %s, to which it would lead, does not exist; make it for the pods of the canary, and the release goes on", of.Kind, of.CanaryService)}
			}
		}
		return run(in)
	}
}

// withObject passes the shaped object, without its content, to a script.
func withObject(obj *unstructured.Unstructured, run Script) Script {
	if run == nil {
		return nil
	}
	of := script.AboutObject(obj.Object)
	return func(in script.Input) (script.Output, error) {
		in.Of = of
		return run(in)
	}
}

// shape is the rendered content of a gateway object, and the children that the script creates and deletes.
type shape struct {
	Content
	create []map[string]any
	delete []script.Reference
}

// foldReleases renders all releases over the original. The children in the result belong to the release self. The error names the release that cannot be
// rendered.
func foldReleases(original Content, es entries, self string, run Script) (shape, error) {
	folded := shape{Content: original}
	for _, e := range es.serviceEntries() {
		next, err := renderRelease(folded.Content, e, run)
		if err != nil && e.UID != self {
			return shape{}, fmt.Errorf("%s on the same object: %w", e, err)
		}
		if err != nil {
			return shape{}, err
		}
		folded.Content = next.Content
		if e.UID == self {
			folded.create, folded.delete = append(folded.create, next.create...), append(folded.delete, next.delete...)
		}
	}
	return folded, nil
}

// foldRenderable renders like foldReleases but leaves out releases that it cannot render, and returns the children of all releases. It only serves to
// restore. Traffic of an omitted release goes to its stable version, and its failure keeps no other release on the object. A script that ran out of time
// may well work later, and is an error.
func foldRenderable(original Content, es entries, run Script) (shape, error) {
	folded := shape{Content: original}
	for _, e := range es.serviceEntries() {
		next, err := renderRelease(folded.Content, e, run)
		switch {
		case err == nil:
			folded.Content, folded.create = next.Content, append(folded.create, next.create...)
		case script.IsLate(err):
			return shape{}, fmt.Errorf("%s on the same object: %w", e, err)
		}
	}
	return folded, nil
}

func renderRelease(before Content, e entry, run Script) (shape, error) {
	if run == nil {
		return shape{}, errors.New("there is no script for its kind")
	}
	out, err := run(e.scriptInput(before.deepCopy()))
	if err != nil {
		return shape{}, err
	}
	after := Content{Spec: out.Spec, Labels: out.Labels, Annotations: out.Annotations}
	if after.Spec == nil && before.Spec != nil {
		return shape{}, errors.New("the script returns no spec; it must return obj.data with its spec")
	}
	if after.Labels == nil {
		after.Labels = before.Labels
	}
	if after.Annotations == nil {
		after.Annotations = before.Annotations
	}
	after = after.withLastApplied(before).deepCopy()
	if err := checkRendering(before.Spec, after.Spec, out.Create, out.WeightSum, e); err != nil {
		return shape{}, err
	}
	return shape{after, out.Create, out.Delete}, nil
}

func (e entry) scriptInput(data Content) script.Input {
	in := script.Input{
		Spec: data.Spec, Labels: data.Labels, Annotations: data.Annotations,
		CanaryWeight: script.NoWeight, StableService: e.Service, CanaryService: e.CanaryService, Namespace: e.Namespace,
	}
	if e.Weight != nil {
		in.SetShare(float64(*e.Weight))
	}
	switch {
	case e.Kind != "":
		in.Stage = script.StageRouting
	case e.Step < 0:
		in.Stage = script.StageAbort
	default:
		in.Stage, in.Step = script.StageStep, int(e.Step)
	}
	if len(e.Matches) > 0 {
		in.SetMatches(MatchValues(e.Matches))
	}
	if e.RequestHeaderModifier != nil {
		in.RequestHeaderModifier = fromJSON([]byte(jsonOf(e.RequestHeaderModifier)))
	}
	if e.Tag != nil {
		in.SetTag(script.Tag(*e.Tag))
	}
	for _, other := range e.others {
		in.Others = append(in.Others, other.String())
	}
	in.Services, in.Ports, in.Revisions, in.Routes = e.services, e.Ports, e.Revisions, e.Rules
	if e.Mirror != nil {
		in.Mirror = float64(*e.Mirror)
	}
	metadata := map[string]any{}
	if len(e.PatchLabels) > 0 {
		metadata["labels"] = e.PatchLabels
	}
	if len(e.PatchAnnotations) > 0 {
		metadata["annotations"] = e.PatchAnnotations
	}
	if len(metadata) > 0 {
		in.PatchPodMetadata = metadata
	}
	return in
}

// MatchValues returns matches as scripts get them: one value of JSON for each.
func MatchValues(matches []api.HTTPRouteMatch) []any {
	values, _ := fromJSON([]byte(jsonOf(matches))).([]any)
	return values
}

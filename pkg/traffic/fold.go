package traffic

import (
	"context"
	"errors"
	"fmt"

	"sluice.dev/sluice/pkg/script"
)

// Script renders one release into the content of an object. Nil labels or annotations in its output stand for those of the
// input; an empty map removes them all.
type Script func(script.Input) (script.Output, error)

// Lua is the script that runs a program, bounded by the default limits and by ctx.
func Lua(ctx context.Context, program *script.Program) Script {
	return func(in script.Input) (script.Output, error) { return program.Render(ctx, in, script.Limits{}) }
}

// fold renders all releases over the original. Its error says which release cannot be rendered; self is the one that asks.
func fold(original Content, es entries, self string, run Script) (Content, error) {
	content := original
	for _, e := range es.sorted() {
		next, err := render(content, e, run)
		if err != nil && e.UID != self {
			return Content{}, fmt.Errorf("%s on the same object: %w", e, err)
		}
		if err != nil {
			return Content{}, err
		}
		content = next
	}
	return content, nil
}

// foldWhatWorks renders like fold but leaves out releases that cannot be rendered. It only serves to restore: their traffic
// goes to their stable version, and nobody's failure keeps another release on the object.
func foldWhatWorks(original Content, es entries, run Script) Content {
	content := original
	for _, e := range es.sorted() {
		if next, err := render(content, e, run); err == nil {
			content = next
		}
	}
	return content
}

func render(before Content, e entry, run Script) (Content, error) {
	if run == nil {
		return Content{}, errors.New("there is no script for its kind")
	}
	out, err := run(e.input(before.copied()))
	if err != nil {
		return Content{}, err
	}
	after := Content{Spec: out.Spec, Labels: out.Labels, Annotations: out.Annotations}
	if after.Spec == nil && before.Spec != nil {
		return Content{}, errors.New("the script returns no spec; it must return obj.data with its spec")
	}
	if after.Labels == nil {
		after.Labels = before.Labels
	}
	if after.Annotations == nil {
		after.Annotations = before.Annotations
	}
	after = after.withLastApplied(before).copied()
	if err := check(before.Spec, after.Spec, e); err != nil {
		return Content{}, err
	}
	return after, nil
}

func (e entry) input(data Content) script.Input {
	in := script.Input{
		Spec: data.Spec, Labels: data.Labels, Annotations: data.Annotations,
		CanaryWeight: script.NoWeight, StableService: e.Service, CanaryService: e.CanaryService, Namespace: e.Namespace,
	}
	if e.Weight != nil {
		in.CanaryWeight = int(*e.Weight)
	}
	if len(e.Matches) > 0 {
		in.Matches, _ = fromJSON([]byte(jsonOf(e.Matches))).([]any)
	}
	if e.RequestHeaderModifier != nil {
		in.RequestHeaderModifier = fromJSON([]byte(jsonOf(e.RequestHeaderModifier)))
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

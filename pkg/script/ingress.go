package script

import (
	"context"
	"fmt"
)

// Copy is a canary Ingress as the script of its class returns it. The main Ingress
// gives all other fields.
type Copy struct {
	// Suffix distinguishes the copies of one Ingress; the first may have none.
	Suffix      string
	Annotations map[string]string
}

// IngressObject is the value of the global obj for the script of an Ingress class.
// The names are OpenKruise's; its weight is a text, "-1" in a step without traffic.
// Annotations are the initial annotations of the canary Ingress. ApiLevel,
// namespace, object, patchPodMetadata, stableService, stage and step are additions.
func (in Input) IngressObject() map[string]any {
	obj := in.LuaObject()
	delete(obj, "data")
	delete(obj, "canaryWeight")
	delete(obj, "stableWeight")
	annotations := map[string]any{}
	for k, v := range in.Annotations {
		annotations[k] = v
	}
	obj["annotations"] = annotations
	obj["weight"] = fmt.Sprint(in.CanaryWeight)
	return obj
}

// RenderIngress runs the script of an Ingress class for a step that the class can
// express. A script returns the annotations of the canary Ingress. For several
// canary Ingresses it returns a list: {create = {{suffix = "by-header", annotations
// = {...}}, ...}}.
func (s Source) RenderIngress(ctx context.Context, in Input, limits Limits) ([]Copy, error) {
	in, err := s.prepareInput(in)
	if err != nil {
		return nil, err
	}
	v, err := s.Program.Run(ctx, in.IngressObject(), limits)
	if err != nil {
		return nil, err
	}
	copies, err := parseCopies(v)
	if err != nil {
		return nil, s.Program.outputError(err)
	}
	return copies, nil
}

func parseCopies(v any) ([]Copy, error) {
	if list, ok := v.([]any); ok && len(list) == 0 {
		v = map[string]any{} // an empty table
	}
	table, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expect table output from Lua script, not %s", luaType(v))
	}
	if err := parseUnsupported(table); err != nil {
		return nil, err
	}
	if _, several := table["create"].([]any); !several {
		annotations, err := parseStrings(map[string]any{"annotations": v}, "annotations")
		return []Copy{{Annotations: annotations}}, err
	}
	list, err := parseTables(table["create"], "create")
	if err != nil {
		return nil, err
	}
	var copies []Copy
	for _, one := range list {
		annotations, err := parseStrings(one, "annotations")
		if err != nil {
			return nil, err
		}
		copies = append(copies, Copy{Suffix: stringOf(one["suffix"]), Annotations: annotations})
	}
	return copies, nil
}

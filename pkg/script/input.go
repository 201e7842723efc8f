package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// APILevel is obj.apiLevel. Scripts check it to learn which additions to
// OpenKruise's input exist.
const APILevel = 2

// NoWeight is the CanaryWeight of a step without traffic.
const NoWeight = -1

// Input is the input of a script for a custom resource: one step of a rollout and
// the original of the object that it shapes.
type Input struct {
	Spec        any               // the original spec of the object, JSON-like
	Labels      map[string]string // the original labels
	Annotations map[string]string // the original annotations, without ours

	CanaryWeight  int   // 0 to 100, or NoWeight; a finer share is rounded, but never to nothing or all
	Matches       []any // the step's matches as JSON, as OpenKruise knows them; nil when the step has none; see [Input.SetMatches]
	CanaryService string
	StableService string // equal to CanaryService when both versions share one Service

	RequestHeaderModifier any // as JSON; nil when absent

	// Additions to OpenKruise's input.
	Namespace        string         // of the object; "" when unknown
	PatchPodMetadata map[string]any // labels and annotations that only canary pods have; nil when none
	Stage            Stage
	Step             int            // the number of the step, from 1; 0 outside [StageStep]
	Rules            []any          // the step's matches as the Rollout has them, if Matches has a part of them in another form
	Mirror           float64        // percent of the requests that are copied to the canary; 0 for none
	Features         []string       // the features that the class of the object's Gateway supports, sorted; nil when unknown
	Unserved         string         // why no Gateway of the object serves its kind; "" when one does, or when that is unknown
	Class            *IngressClass  // the class of the object; nil when its kind has no classes, or when it is unknown
	Reads            []any          // existing objects that the object names, of the kinds in the capabilities' reads, as JSON
	Fine             float64        // the canary's share in percent where CanaryWeight is rounded, else 0; see [Input.SetShare]
	Services         []Service      // all Services through which the object routes to the workload, including this one; nil for this one alone
	Ports            []Port         // the ports of the stable Service; nil when unknown
	Revisions        *Revisions     // the revisions of the pods; nil when unknown
	Routes           []string       // names of the rules that may be changed; nil for all that lead to the stable Service
	Tag              *Tag           // the mark of requests that are for canaries, nil for none; see [Input.SetTag]
	Of               map[string]any // the object without its spec, labels, annotations and status; nil when unknown
	Others           []string       // other releases on the object, by their names in messages; scripts do not get them
	Tells            []string       // the fields of obj that the capabilities of the script ask for
}

// Service is a Service and the canary's Service; both are the same if the versions
// share it.
type Service struct{ Stable, Canary string }

// Port is a port of a Service, in the form of corev1.ServicePort. TargetPort is a
// number or a name.
type Port struct {
	Name        string `json:"name,omitempty"`
	Port        int32  `json:"port"`
	TargetPort  any    `json:"targetPort,omitempty"`
	Protocol    string `json:"protocol,omitempty"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// Revisions distinguish the pods of both versions by the values of a label, such as
// pod-template-hash.
type Revisions struct {
	Label  string `json:"label"`
	Stable string `json:"stable,omitempty"`
	Canary string `json:"canary,omitempty"`
}

// SetShare sets the canary's share in percent, 0 to 100.
func (in *Input) SetShare(percent float64) {
	in.CanaryWeight, in.Fine = int(math.Round(percent)), 0
	if float64(in.CanaryWeight) != percent {
		in.CanaryWeight, in.Fine = min(max(in.CanaryWeight, 1), 99), percent
	}
}

// CanaryPercent is the canary's share that the step asks for, or [NoWeight].
func (in Input) CanaryPercent() float64 {
	if in.Fine != 0 {
		return in.Fine
	}
	return float64(in.CanaryWeight)
}

// AboutObject returns the fields of an object that a script gets in addition to
// spec, labels and annotations: see [Input].Of. The result shares memory with
// object, so the caller must change neither.
func AboutObject(object map[string]any) map[string]any {
	of := map[string]any{}
	for key, value := range object {
		switch key {
		case "metadata", "spec", "status":
		default:
			of[key] = value
		}
	}
	name, _ := memberOf(object["metadata"], "name").(string)
	namespace, _ := memberOf(object["metadata"], "namespace").(string)
	of["metadata"] = map[string]any{"name": name, "namespace": namespace}
	return of
}

// Stage is the purpose of a call of a script. No call serves to restore an object.
type Stage string

// The stages.
const (
	StageStep    Stage = "step"    // a step of a release
	StageAbort   Stage = "abort"   // an aborted release moves its traffic back in shares
	StageRouting Stage = "routing" // a TrafficRouting
)

// LuaObject is the value of the global obj. The names are OpenKruise's;
// obj.stableWeight is 101 in a step without traffic, as in OpenKruise. ApiLevel,
// features, fineWeight, mirror, namespace, object, patchPodMetadata, ports, reads,
// routes, rules, services, stage, step, tag and targets are additions.
func (in Input) LuaObject() map[string]any {
	data := map[string]any{}
	if in.Spec != nil {
		data["spec"] = in.Spec
	}
	if len(in.Labels) > 0 {
		data["labels"] = in.Labels
	}
	if len(in.Annotations) > 0 {
		data["annotations"] = in.Annotations
	}
	obj := map[string]any{
		"apiLevel":      int64(APILevel),
		"data":          data,
		"canaryWeight":  int64(in.CanaryWeight),
		"stableWeight":  int64(100 - in.CanaryWeight),
		"canaryService": in.CanaryService,
		"stableService": in.StableService,
	}
	if in.Matches != nil {
		obj["matches"] = in.Matches
	}
	if in.RequestHeaderModifier != nil {
		obj["requestHeaderModifier"] = in.RequestHeaderModifier
	}
	if in.Namespace != "" {
		obj["namespace"] = in.Namespace
	}
	if in.PatchPodMetadata != nil {
		obj["patchPodMetadata"] = in.PatchPodMetadata
	}
	if in.Stage != "" {
		obj["stage"] = string(in.Stage)
	}
	if in.Step > 0 {
		obj["step"] = int64(in.Step)
	}
	if in.Of != nil {
		obj["object"] = in.Of
	}
	if in.Rules != nil {
		obj["rules"] = in.Rules
	}
	if in.Fine != 0 {
		obj["fineWeight"] = in.Fine
	}
	if in.Mirror != 0 {
		obj["mirror"] = map[string]any{"percent": in.Mirror, "service": in.CanaryService}
	}
	if in.Features != nil {
		obj["features"] = toList(in.Features)
	}
	if in.Reads != nil {
		obj["reads"] = in.Reads
	}
	if in.Routes != nil {
		obj["routes"] = toList(in.Routes)
	}
	if in.Tag != nil {
		obj["tag"] = in.Tag.luaObject()
	}
	in.addRequestedFields(obj)
	return obj
}

// addRequestedFields adds fields that only some scripts ask for.
func (in Input) addRequestedFields(obj map[string]any) {
	for _, key := range in.Tells {
		switch key {
		case tellServices:
			all := in.Services
			if all == nil {
				all = []Service{{in.StableService, in.CanaryService}}
			}
			services := make([]any, len(all))
			for i, s := range all {
				services[i] = map[string]any{"stable": s.Stable, "canary": s.Canary}
			}
			obj[key] = services
		case TellTargets:
			obj[key] = []any{in.versionTarget("stable"), in.versionTarget("canary")}
		case TellPorts:
			ports := make([]any, len(in.Ports))
			for i, p := range in.Ports {
				ports[i] = p.luaObject()
			}
			obj[key] = ports
		}
	}
}

// versionTarget is one of the two versions, with its share in percent if the step
// has shares.
func (in Input) versionTarget(role string) map[string]any {
	target, share, revision := map[string]any{"role": role, "service": in.StableService}, 100-in.CanaryPercent(), ""
	if in.Revisions != nil {
		revision = in.Revisions.Stable
	}
	if role == "canary" {
		target["service"], share = in.CanaryService, in.CanaryPercent()
		if in.Revisions != nil {
			revision = in.Revisions.Canary
		}
	}
	if in.CanaryWeight != NoWeight {
		target["weight"] = share
	}
	if revision != "" {
		target["revision"], target["labels"] = revision, map[string]any{in.Revisions.Label: revision}
	}
	return target
}

func (p Port) luaObject() map[string]any {
	port := map[string]any{"port": int64(p.Port)}
	for key, value := range map[string]string{"name": p.Name, "protocol": p.Protocol, "appProtocol": p.AppProtocol} {
		if value != "" {
			port[key] = value
		}
	}
	if p.TargetPort != nil {
		port["targetPort"] = p.TargetPort
	}
	return port
}

func toList(list []string) []any {
	all := make([]any, len(list))
	for i, s := range list {
		all[i] = s
	}
	return all
}

// Output is the desired object according to a script. Nil labels or annotations mean
// that the script did not set them: the originals stay.
type Output struct {
	Spec        any
	Labels      map[string]string
	Annotations map[string]string

	// Additions to OpenKruise's output.
	Create []map[string]any // objects to create for this one: apiVersion, kind, metadata.name and other fields
	Delete []Reference      // objects of earlier steps to delete before any write; objects that Create no longer has are deleted last

	// WeightSum is the required sum of the weights of a rule's backends, by the
	// capabilities of the kind; 0 if any sum is allowed.
	WeightSum float64
}

// Reference names an object in the namespace of the object that a script shapes.
type Reference struct{ APIVersion, Kind, Name string }

// UnsupportedError is the reason why a script cannot carry out a step, in the
// script's own words: the field unsupported of its result.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return e.Reason }

// Render runs the program on in and reads its result.
func (p *Program) Render(ctx context.Context, in Input, limits Limits) (Output, error) {
	v, err := p.Run(ctx, in.LuaObject(), limits)
	if err != nil {
		return Output{}, err
	}
	out, err := parseOutput(v)
	if err == nil && out.Spec == nil && in.Spec != nil {
		err = fmt.Errorf("the returned table has no spec; return obj.data, or a table with spec, labels and annotations")
	}
	if err != nil {
		return Output{}, p.outputError(err)
	}
	return out, nil
}

// outputError returns the error in the result of the program. A refusal of the
// script itself keeps its own words.
func (p *Program) outputError(err error) error {
	var unsupported *UnsupportedError
	if errors.As(err, &unsupported) {
		return err
	}
	return &Error{Script: p.name, Kind: KindOutput, Message: shorten(err.Error())}
}

func parseOutput(v any) (Output, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return Output{}, fmt.Errorf("expect table output from Lua script, not %s", luaType(v))
	}
	if err := parseUnsupported(table); err != nil {
		return Output{}, err
	}
	out := Output{Spec: table["spec"]}
	var err error
	if out.Create, err = parseCreate(table["create"]); err != nil {
		return Output{}, err
	}
	if out.Delete, err = parseDelete(table["delete"]); err != nil {
		return Output{}, err
	}
	if out.Labels, err = parseStrings(table, "labels"); err != nil {
		return Output{}, err
	}
	if out.Annotations, err = parseStrings(table, "annotations"); err != nil {
		return Output{}, err
	}
	return out, nil
}

func parseUnsupported(table map[string]any) error {
	switch reason := table["unsupported"].(type) {
	case nil:
		return nil
	case string:
		if reason != "" {
			return &UnsupportedError{shorten(reason)}
		}
	}
	return errors.New("unsupported in the returned table must be a text that says why")
}

// parseTables reads a field of the returned table that is a list of tables; an empty
// table counts as a list.
func parseTables(v any, field string) ([]map[string]any, error) {
	if m, ok := v.(map[string]any); ok && len(m) == 0 || v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s in the returned table must be a list, not %s", field, luaType(v))
	}
	var tables []map[string]any
	for i, e := range list {
		table, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] in the returned table must be a table, not %s", field, i+1, luaType(e))
		}
		tables = append(tables, table)
	}
	return tables, nil
}

func parseCreate(v any) ([]map[string]any, error) {
	list, err := parseTables(v, "create")
	for i, object := range list {
		name, _ := memberOf(object["metadata"], "name").(string)
		if r := (Reference{stringOf(object["apiVersion"]), stringOf(object["kind"]), name}); !r.isComplete() {
			return nil, fmt.Errorf("create[%d] in the returned table needs apiVersion, kind and metadata.name", i+1)
		}
	}
	return list, err
}

func parseDelete(v any) ([]Reference, error) {
	list, err := parseTables(v, "delete")
	var refs []Reference
	for i, object := range list {
		r := Reference{stringOf(object["apiVersion"]), stringOf(object["kind"]), stringOf(object["name"])}
		if !r.isComplete() {
			return nil, fmt.Errorf("delete[%d] in the returned table needs apiVersion, kind and name", i+1)
		}
		refs = append(refs, r)
	}
	return refs, err
}

func (r Reference) isComplete() bool { return r.APIVersion != "" && r.Kind != "" && r.Name != "" }

func stringOf(v any) string {
	s, _ := v.(string)
	return s
}

func parseStrings(table map[string]any, field string) (map[string]string, error) {
	v := table[field]
	if v == nil {
		return nil, nil
	}
	if list, ok := v.([]any); ok && len(list) == 0 {
		return map[string]string{}, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s in the returned table must be a table of strings, not %s", field, luaType(v))
	}
	out := make(map[string]string, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s, ok := m[k].(string)
		if !ok {
			return nil, fmt.Errorf("%s in the returned table must hold strings only: use tostring for %q", field, k)
		}
		out[k] = s
	}
	return out, nil
}

func luaType(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "boolean"
	case string:
		return "string"
	case map[string]any:
		return "table"
	case []any:
		return "a list"
	}
	return "number"
}

package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// APILevel is obj.apiLevel: scripts may ask which additions to OpenKruise's
// input they can rely on.
const APILevel = 2

// NoWeight is the CanaryWeight of a step without traffic.
const NoWeight = -1

// Input is what a script for a custom resource is asked: one step of a rollout
// and the original of the object that it shapes.
type Input struct {
	Spec        any               // the original spec of the object, JSON-like
	Labels      map[string]string // the original labels
	Annotations map[string]string // the original annotations, without ours

	CanaryWeight  int   // 0 to 100, or NoWeight; what is finer is rounded, but never to nothing or all
	Matches       []any // the step's matches as JSON, as OpenKruise knows them; nil when the step has none; see [Input.SetMatches]
	CanaryService string
	StableService string // equal to CanaryService when both versions share one Service

	RequestHeaderModifier any // as JSON; nil when absent

	// Additions to OpenKruise's input.
	Namespace        string         // of the object; "" when unknown
	PatchPodMetadata map[string]any // labels and annotations that only canary pods carry; nil when none
	Stage            Stage
	Step             int            // the number of the step, from 1; 0 outside [StageStep]
	Rules            []any          // the step's matches as they were written, where Matches has something of them in another form
	Mirror           float64        // percent of the requests that are copied to the canary; 0 for none
	Features         []string       // what the class of the object's Gateway supports, sorted; nil when unknown
	Unserved         string         // why no Gateway of the object serves its kind; "" when one does, or when that is unknown
	Class            *IngressClass  // that of the object; nil when it has none by its kind, or is unknown
	Reads            []any          // existing objects that the object names, of the kinds in the capabilities' reads, as JSON
	Fine             float64        // the canary's share in percent where CanaryWeight is rounded, else 0; see [Input.SetShare]
	Services         []Service      // all by which the object routes to the workload, this one among them; nil for this one alone
	Ports            []Port         // those of the stable Service; nil when unknown
	Revisions        *Revisions     // those of the pods; nil when unknown
	Routes           []string       // names of the rules that may be touched; nil for all that lead to the stable Service
	Tag              *Tag           // what marks the requests that are for canaries, nil for nothing; see [Input.SetTag]
	Of               map[string]any // the object but for its spec, labels, annotations and status; nil when unknown
	Others           []string       // other releases on the object, as people call them; a script is not told
	Tells            []string       // the fields of obj that the capabilities of the script ask for
}

// Service is a Service with the canary's beside it; both are the same where
// the versions share it.
type Service struct{ Stable, Canary string }

// Port is a port of a Service, as corev1.ServicePort has it. TargetPort is a
// number or a name.
type Port struct {
	Name        string `json:"name,omitempty"`
	Port        int32  `json:"port"`
	TargetPort  any    `json:"targetPort,omitempty"`
	Protocol    string `json:"protocol,omitempty"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// Revisions tell the pods of both versions apart: the values of a label, such as
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

// CanaryPercent is the canary's share as it was asked for, or [NoWeight].
func (in Input) CanaryPercent() float64 {
	if in.Fine != 0 {
		return in.Fine
	}
	return float64(in.CanaryWeight)
}

// AboutObject is what a script may know of an object beside its spec, labels and
// annotations: see [Input].Of. What the two share must not be changed.
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

// Stage is for what a script is called. To restore it never is.
type Stage string

// The stages.
const (
	StageStep    Stage = "step"    // a step of a release
	StageAbort   Stage = "abort"   // a release that was stopped takes back its traffic, bit by bit
	StageRouting Stage = "routing" // a TrafficRouting
)

// LuaObject is the value of the global obj. The names are those of OpenKruise;
// obj.stableWeight is 101 in a step without traffic, as it is there. ApiLevel,
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

// addRequestedFields adds what only some scripts want to know.
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

// versionTarget is one of the two versions, with its share in percent where the step
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

// Output is what a script wants the object to be. Nil labels or annotations
// mean that the script did not mention them: the originals stay.
type Output struct {
	Spec        any
	Labels      map[string]string
	Annotations map[string]string

	// Additions to OpenKruise's output.
	Create []map[string]any // objects that are to be there beside this one: apiVersion, kind, metadata.name and what else they have
	Delete []Reference      // objects made by earlier steps that must be gone before anything is written; what Create has no more goes last

	// WeightSum is what the weights of a rule's backends must add up to, by the
	// capabilities of the kind; 0 when they may be any.
	WeightSum float64
}

// Reference names an object of the namespace of the one that a script shapes.
type Reference struct{ APIVersion, Kind, Name string }

// UnsupportedError is why a script cannot carry out what it is asked, in its
// own words: the field unsupported of what it returns.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return e.Reason }

// Render runs the program on in and reads what it returns.
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

// outputError tells what is wrong with what the program returned. What it refuses
// itself it says in its own words.
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

// parseTables is a field of the returned table that is a list of tables; an empty
// table is one as well.
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

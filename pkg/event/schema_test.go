package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice.dev/sluice/pkg/event"
)

// types returns all types with a schema.
func types() (list []string) {
	for _, k := range event.Vocabulary() {
		list = append(list, k.Type())
	}
	return append(list, event.TypeApproval, event.TypeFleetRelease)
}

func compiled(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	text, err := event.SchemaOf(kind)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(kind, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(kind)
	if err != nil {
		t.Fatalf("the schema of %s is none: %v", kind, err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, data string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestEveryTypeHasASchema(t *testing.T) {
	t.Parallel()
	for _, kind := range types() {
		s := compiled(t, kind)
		if !strings.HasSuffix(s.ID, "/"+kind) || s.Title != kind || s.Description == "" {
			t.Errorf("the schema of %s calls itself %q, %q and says %q", kind, s.ID, s.Title, s.Description)
		}
	}
	if _, err := event.SchemaOf("dev.sluice.step.dreamt.v1"); err == nil {
		t.Error("a type that does not exist has a schema")
	}
}

// Each schema has the same fields as its Go type, so a change of only one of them fails.
func TestSchemasNameTheFieldsThatAreSent(t *testing.T) {
	t.Parallel()
	for kind, data := range map[string]any{
		"dev.sluice.step.paused.v1": event.Data{}, event.TypeDecided: event.Decided{}, event.TypeApproval: event.Approval{},
		event.TypeMeasured: event.Measured{}, event.TypeVerdict: event.Verdict{}, "dev.sluice.fleet.wave.passed.v1": event.FleetData{}, event.TypeFleetRelease: event.FleetRelease{},
	} {
		text, err := event.SchemaOf(kind)
		if err != nil {
			t.Fatal(err)
		}
		var s node
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(structFields("", reflect.TypeOf(data)), s.fields("")); diff != "" {
			t.Errorf("%s (-Go +schema):\n%s", kind, diff)
		}
	}
}

// node is a schema or a part of one.
type node struct {
	Type       string
	Properties map[string]node
	Items      *node
}

func (n node) fields(path string) (list []string) {
	for name, p := range n.Properties {
		list = append(list, fmt.Sprintf("%s%s %s", path, name, p.Type))
		list = append(list, p.fields(path+name+".")...)
		if p.Items != nil {
			list = append(list, p.Items.fields(path+name+"[].")...)
		}
	}
	slices.Sort(list)
	return list
}

func structFields(path string, t reflect.Type) (list []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			list = append(list, structFields(path, f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		kind := map[reflect.Kind]string{
			reflect.String: "string", reflect.Bool: "boolean", reflect.Int32: "integer", reflect.Int64: "integer", reflect.Float64: "number", reflect.Struct: "object", reflect.Map: "object", reflect.Slice: "array",
		}[inner.Kind()]
		list = append(list, fmt.Sprintf("%s%s %s", path, name, kind))
		if kind == "array" && inner.Elem().Kind() == reflect.Struct {
			list = append(list, structFields(path+name+"[].", inner.Elem())...)
		}
		if inner.Kind() == reflect.Struct {
			list = append(list, structFields(path+name+".", inner)...)
		}
	}
	slices.Sort(list)
	return list
}

func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	const who = `"cluster":"c","namespace":"n","name":"x","uid":"u",`
	for name, c := range map[string]struct {
		kind, data string
		ok         bool
	}{
		"nothing of a step that is there":       {"dev.sluice.step.paused.v1", `{` + who + `"release":{"epoch":1},"step":{"index":1},"from":"a","to":"b","message":"m","cause":"Time"}`, true},
		"nothing of later additions":            {"dev.sluice.rollout.deleted.v1", `{` + who + `"to":"b","cause":"Rollout","more":{"x":1}}`, true},
		"a step event without a step":           {"dev.sluice.step.paused.v1", `{` + who + `"release":{"epoch":1},"from":"a","to":"b","message":"m","cause":"Time"}`, false},
		"a step numbered from 0":                {"dev.sluice.step.paused.v1", `{` + who + `"release":{"epoch":1},"step":{"index":0},"from":"a","to":"b","message":"m","cause":"Time"}`, false},
		"a failure without a reason":            {"dev.sluice.failure.raised.v1", `{` + who + `"from":"a","to":"Stalled","message":"m","cause":"Problem"}`, false},
		"an event without a cause":              {"dev.sluice.rollout.deleted.v1", `{` + who + `"to":"b"}`, false},
		"nothing of an accepted decision":       {event.TypeDecided, `{"accepted":true,"message":"m","principal":"p","approvalSource":"/ci","approvalID":"1"}`, true},
		"an accepted decision with a refusal":   {event.TypeDecided, `{"accepted":true,"refusal":"Expired","message":"m","principal":"p","approvalSource":"/ci","approvalID":"1"}`, false},
		"a refused decision without a refusal":  {event.TypeDecided, `{"accepted":false,"message":"m","principal":"p","approvalSource":"/ci","approvalID":"1"}`, false},
		"nothing of an approval with an image":  {event.TypeApproval, `{"decision":"approve","image":"x"}`, true},
		"an approval that names no release":     {event.TypeApproval, `{"decision":"approve"}`, false},
		"nothing of an approval of a wave":      {event.TypeApproval, `{"decision":"approve","uid":"u","epoch":7,"wave":"canary"}`, true},
		"an approval of a wave of no release":   {event.TypeApproval, `{"decision":"approve","uid":"u","wave":"canary"}`, false},
		"nothing of a fleet's version":          {event.TypeFleetRelease, `{"version":"v2"}`, true},
		"a fleet's release without a version":   {event.TypeFleetRelease, `{"plan":"hotfix"}`, false},
		"an event of a cluster without one":     {"dev.sluice.fleet.cluster.failed.v1", `{` + who + `"release":{"epoch":1},"to":"Failed","message":"m","cause":"Fleet"}`, false},
		"an approval that is neither yes or no": {event.TypeApproval, `{"decision":"maybe","image":"x"}`, false},
	} {
		if err := valid(t, compiled(t, c.kind), c.data); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsToldFitsItsSchema(t *testing.T) {
	t.Parallel()
	seen := aRelease()
	for _, transition := range seen.Status.Sluice.Transitions {
		e := told(t, seen, transition.Seq)
		if err := valid(t, compiled(t, e.Type()), string(e.Data())); err != nil {
			t.Errorf("%s: %v\n%s", e.Type(), err, e.Data())
		}
	}
	for _, d := range []event.Decided{
		{Accepted: true, Message: "step 2 was approved", Decision: "approve", Step: 2, Revision: "c41a", RolloutID: "v1.4.2", Principal: "ci", ApprovalSource: "/ci", ApprovalID: "7", Comment: "green"},
		{Refusal: "Malformed", Message: "data is no JSON", Principal: "ci", ApprovalSource: "/ci", ApprovalID: "8"},
	} {
		e, err := event.NewDecided(checkout(), d, noon.Time)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, compiled(t, event.TypeDecided), string(e.Data())); err != nil {
			t.Errorf("%v\n%s", err, e.Data())
		}
	}
}

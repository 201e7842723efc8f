package event

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed schema/*.json
var schemas embed.FS

// schemaID is the beginning of each schema's $id. It is a name, not an address for downloads.
const schemaID = "https://sluice.dev/schemas/event/"

// SchemaOf returns the JSON Schema (2020-12) of the data of an event of this type, indented. It also has the schemas of [TypeApproval] and
// [TypeFleetRelease], which users send to Sluice. Data may have fields that the schema does not name, because later versions add fields.
func SchemaOf(kind string) ([]byte, error) {
	k, ok := findKind(kind)
	if !ok {
		return nil, fmt.Errorf("there is no event of type %q", kind)
	}
	file, needs := "release", k.RequiredFields()
	switch {
	case kind == TypeDecided:
		file = "decided"
	case kind == TypeApproval:
		file = "approval"
	case kind == TypeFleetRelease:
		file = "fleet_release"
	case kind == TypeMeasured:
		file = "measured"
	case kind == TypeVerdict:
		file = "verdict"
	case strings.HasPrefix(k.Noun, "fleet."):
		file = "fleet"
	}
	text, err := schemas.ReadFile("schema/" + file + ".json")
	if err != nil {
		return nil, fmt.Errorf("read schema of %s: %w", kind, err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read schema of %s: %w", kind, err)
	}
	s.ID, s.Title, s.Description = schemaID+kind, kind, k.When
	s.Required = append(s.Required, needs...)
	return encodeSchema(s)
}

// schema is the part of a JSON Schema that differs between types.
type schema struct {
	Schema      string          `json:"$schema"`
	ID          string          `json:"$id"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Type        string          `json:"type"`
	Required    []string        `json:"required"`
	AnyOf       json.RawMessage `json:"anyOf,omitempty"`
	Properties  json.RawMessage `json:"properties"`
	If          json.RawMessage `json:"if,omitempty"`
	Then        json.RawMessage `json:"then,omitempty"`
	Else        json.RawMessage `json:"else,omitempty"`
}

func encodeSchema(s schema) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s); err != nil {
		return nil, fmt.Errorf("write schema of %s: %w", s.Title, err)
	}
	return b.Bytes(), nil
}

// RequiredFields returns the fields in the data of every event of this kind, without the fields that all events have.
func (k Kind) RequiredFields() []string {
	switch {
	case k.Noun == nounFleetRelease:
		return []string{"message"}
	case k.Noun == nounFleetWave:
		return []string{"release", "wave", "message"}
	case k.Noun == nounFleetCluster:
		return []string{"release", "member", "message"}
	case k.Noun == "step":
		return []string{"release", "step", "from", "message"}
	case k.Type() == TypeMeasured:
		return []string{"release", "step", "outcome", "message"}
	case k.Type() == TypeVerdict:
		return []string{"release", "step", "from", "to", "message"}
	case k.Noun == "traffic":
		return []string{"from", "message"}
	case k.Noun == "failure":
		return []string{"from", "reason", "message"}
	}
	return nil
}

func findKind(kind string) (Kind, bool) {
	switch kind {
	case TypeApproval:
		return Kind{When: "A decision about a paused step, or about a wave of a fleet, sent to Sluice."}, true
	case TypeFleetRelease:
		return Kind{When: "The version of the next release of a FleetRollout, sent to the hub of a fleet."}, true
	}
	for _, k := range Vocabulary() {
		if k.Type() == kind {
			return k, true
		}
	}
	return Kind{}, false
}

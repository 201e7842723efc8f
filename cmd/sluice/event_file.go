package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nuid"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/event"
)

// maxFile is larger than any approval.
const maxFile = 1 << 20

// readEvent reads one CloudEvent in its JSON form, or the same as YAML.
func readEvent(file string, stdin io.Reader) (event.Event, error) {
	in := stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return event.Event{}, fmt.Errorf("read event: %w", err)
		}
		defer opened.Close()
		in = opened
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return event.Event{}, fmt.Errorf("read event from %s: %w", file, err)
	}
	if len(text) > maxFile {
		return event.Event{}, fmt.Errorf("read event from %s: it is larger than %d bytes", file, maxFile)
	}
	e, err := parseEvent(text)
	if err != nil {
		return event.Event{}, fmt.Errorf("read event from %s: %w", file, err)
	}
	return e, nil
}

func parseEvent(text []byte) (event.Event, error) {
	if strings.TrimSpace(string(text)) == "" {
		return event.Event{}, errors.New("there is nothing in it")
	}
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return event.Event{}, fmt.Errorf("it is neither JSON nor YAML: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return event.Event{}, errors.New("it is not one CloudEvent; send one event at a time")
	}
	if _, number := fields["specversion"].(float64); number {
		fields["specversion"] = "1.0" // YAML reads 1.0 without quotes as a number
	}
	if fields["id"] == nil {
		fields["id"] = nuid.Next()
	}
	if fields["time"] == nil {
		fields["time"] = time.Now().UTC().Format(time.RFC3339Nano)
	}
	if body, err = json.Marshal(fields); err != nil {
		return event.Event{}, err
	}
	return event.Decode(map[string][]string{"content-type": {"application/cloudevents+json"}}, body)
}

// newApproval returns the event of a decision with the current time.
func newApproval(about event.Rollout, a event.Approval, source, id string) (event.Event, error) {
	e, err := newRequest(about, event.TypeApproval, a, source, id)
	if err != nil {
		return event.Event{}, err
	}
	if a.RolloutID == "" && a.Image == "" && a.Revision == "" {
		return event.Event{}, errors.New("say which release is meant: give at least one of --rollout-id, --image and --revision")
	}
	if _, _, err := event.ParseApproval(e); err != nil {
		return event.Event{}, fmt.Errorf("this is no approval: %w", err)
	}
	return e, nil
}

// newRequest returns an event about a Rollout or a FleetRollout with the current time.
func newRequest(about event.Rollout, kind string, data any, source, id string) (event.Event, error) {
	e := cloudevents.New()
	e.SetType(kind)
	e.SetSource(source)
	e.SetSubject(about.Subject())
	e.SetID(cmp.Or(id, nuid.Next()))
	e.SetTime(time.Now().UTC())
	if err := e.SetData("application/json", data); err != nil {
		return event.Event{}, fmt.Errorf("encode event: %w", err)
	}
	return e, nil
}

// formatEvent writes an event in its JSON form, or the same as YAML.
func formatEvent(e event.Event, output string) (string, error) {
	text, err := json.MarshalIndent(e, "", "  ")
	if err == nil && output == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return "", fmt.Errorf("print event: %w", err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

package world

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// recordDir is the directory that RecordWrites writes to; "" for none.
var recordDir = os.Getenv("SLUICE_WRITES")

// varying matches the texts that differ from run to run: times, UIDs, and names of pods and slices.
var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)

// RecordWrites writes the executor's writes to a namespace into a file, one a line, for a comparison of two builds. A line has
// verb, resource, name and content. It leaves out the texts that differ from run to run, the labels of single pods, and
// all of a status except the state of the release. Without the variable SLUICE_WRITES it does nothing.
func RecordWrites(t testing.TB, namespace string, writes []Write) {
	if recordDir == "" {
		return
	}
	var lines []string
	for _, w := range writes {
		if w.User != executorUser || w.Resource == "pods" || w.Code >= 300 {
			continue
		}
		line := fmt.Sprintf("%s %s %s", w.Verb, strings.TrimSuffix(w.Resource+"/"+w.Subresource, "/"), w.Name)
		if w.Object != nil {
			text, err := json.Marshal(content(w))
			if err != nil {
				t.Error(err)
			}
			line += " " + string(text)
		}
		if line = varying.ReplaceAllString(line, "*"); !slices.Contains(lines[max(0, len(lines)-1):], line) {
			lines = append(lines, line)
		}
	}
	name := strings.ReplaceAll(t.Name(), "/", "-")
	if err := os.WriteFile(filepath.Join(recordDir, name+"."+namespace), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Error(err)
	}
}

// content returns the part of a written object that does not depend on the time.
func content(w Write) any {
	if w.Subresource == "status" {
		state := map[string]any{}
		for _, style := range []string{"canaryStatus", "blueGreenStatus"} {
			status, _, _ := unstructured.NestedMap(w.Object.Object, "status", style)
			for _, field := range []string{"currentStepIndex", "currentStepState", "finalisingStep"} {
				if value, is := status[field]; is {
					state[field] = value
				}
			}
		}
		return state
	}
	o := w.Object.DeepCopy()
	delete(o.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "ownerReferences", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(o.Object, "spec", field)
	}
	annotations := o.GetAnnotations()
	delete(annotations, api.AnnotationRendered) // digests of objects with UIDs
	o.SetAnnotations(annotations)
	return o.Object
}

package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

// container has the fields of a container or of a compose service for its program and arguments.
type container struct{ Entrypoint, Command, Args []string }

func (c container) words() []string { return append(append(c.Entrypoint, c.Command...), c.Args...) }

func TestEveryFlagInManifestsExists(t *testing.T) {
	t.Parallel()
	help := helpOfParts(t)
	used := map[string]bool{}
	for where, c := range containers(t) {
		words := c.words()
		if len(words) == 0 {
			continue
		}
		program := strings.TrimPrefix(words[0], "/")
		text, ok := help[program]
		if !ok {
			continue // not a program of Sluice
		}
		used[program] = true
		for _, word := range words[1:] {
			flag, _, _ := strings.Cut(word, "=")
			if !regexp.MustCompile(`(?m)^\s+(-\w, )?` + regexp.QuoteMeta(flag) + `\b`).MatchString(text) {
				t.Errorf("%s starts %s with %s, which it does not know", where, program, word)
			}
		}
	}
	if len(used) != len(help) {
		t.Errorf("only %v of the parts are started by the manifests", used)
	}
}

// helpOfParts returns the help texts of the three components.
func helpOfParts(t *testing.T) map[string]string {
	t.Helper()
	all, err := helps()
	if err != nil {
		t.Fatal(err)
	}
	parts := maps.Clone(all)
	delete(parts, "sluice run")
	return parts
}

// containers returns all containers that docker-compose.yaml and deploy/parts start.
func containers(t *testing.T) map[string]container {
	t.Helper()
	list := map[string]container{}
	text, err := os.ReadFile(filepath.Join(world.Root(), "docker-compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]container `json:"services"`
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	for name, c := range compose.Services {
		list["docker-compose.yaml "+name] = c
	}
	for key, object := range manifests(t) {
		body, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var workload struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []container }
				}
			}
		}
		if object["kind"] != "Deployment" && object["kind"] != "StatefulSet" {
			continue
		}
		if err := yaml.Unmarshal(body, &workload); err != nil {
			t.Fatal(err)
		}
		for _, c := range workload.Spec.Template.Spec.Containers {
			list[key] = c
		}
	}
	return list
}

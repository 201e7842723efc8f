// Package compose checks docker-compose.yaml against the compose schema, with the loader of Docker Compose itself. It
// is a separate module, so that Sluice does not depend on this loader.
package compose

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yaml")}, cli.WithEnv(env), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

func TestTheComposeFileFollowsTheSchema(t *testing.T) {
	project, err := load(t, "NATS_PASSWORD=secret", "KUBECONFIG=/tmp/kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"analyzer", "executor", "nats-1", "nats-2", "nats-3", "prometheus", "watcher"}
	names := project.ServiceNames()
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	for _, name := range []string{"watcher", "executor", "analyzer"} {
		s := project.Services[name]
		if s.Environment["NATS_PASSWORD"] == nil || *s.Environment["NATS_PASSWORD"] != "secret" {
			t.Errorf("%s does not get the password of NATS", name)
		}
		if len(s.Volumes) != 1 || s.Volumes[0].Source != "/tmp/kubeconfig" || !s.Volumes[0].ReadOnly {
			t.Errorf("%s does not mount the kubeconfig read-only: %+v", name, s.Volumes)
		}
		if s.Build == nil {
			t.Errorf("%s is not built from the tree", name)
		}
		if diff := cmp.Diff([]string{"nats-1", "nats-2", "nats-3"}, slices.Sorted(slices.Values(s.GetDependencies()))); diff != "" {
			t.Errorf("%s waits for (-want +got):\n%s", name, diff)
		}
	}
}

func TestOnlyTheLoopbackInterfaceIsPublished(t *testing.T) {
	project, err := load(t, "NATS_PASSWORD=secret")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range project.Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q", name, port.Published, port.HostIP)
			}
		}
	}
}

func TestWithoutAPasswordNothingStarts(t *testing.T) {
	if _, err := load(t); err == nil {
		t.Error("the file loads without NATS_PASSWORD")
	}
}

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestThePoliciesAreUpToDate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, err := os.ReadFile("../hold-deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hold-deployment.yaml"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(made) != 1+2*len(families()) {
		t.Fatalf("it made %v: %v", made, err)
	}
	for _, file := range made {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not as generated (go generate ./deploy):\n%s", filepath.Base(file), diff)
		}
	}
}

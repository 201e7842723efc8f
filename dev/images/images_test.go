package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// whole builds the programs of Sluice instead of a small one. It takes minutes.
func whole() bool { return os.Getenv("SLUICE_IMAGES") == "whole" }

func trial(out string) *build {
	b := &build{
		title: "Trial", version: "v1", source: ".", out: out, packages: []string{"./testdata/hello"}, entrypoint: "/hello",
		platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}},
	}
	if whole() {
		b.source, b.packages, b.entrypoint = "../..", []string{"./cmd/sluice", "./cmd/watcher", "./cmd/executor", "./cmd/analyzer"}, "/sluice"
	}
	return b
}

// Two builds are identical. Each image is valid, its programs are for its platform and run, and its SBOM lists their modules.
func TestImages(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "images"), filepath.Join(t.TempDir(), "images")
	var digests []string
	for _, out := range []string{first, first, second} { // the second build replaces the first
		digest, err := trial(out).write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if len(slices.Compact(digests)) != 1 {
		t.Errorf("the digests are %v", digests)
	}
	if a, b := files(t, first), files(t, second); !maps.EqualFunc(a, b, bytes.Equal) {
		t.Errorf("the layouts differ: %v and %v", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}

	index, err := layout.ImageIndexFromPath(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 3 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Fatalf("the layout has %+v", manifest.Manifests)
	}
	images, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := images.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range platforms.Manifests {
		image, err := images.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		wantPrograms(t, image, d.Platform.Architecture)
		inventory, err := index.Image(manifest.Manifests[i+1].Digest)
		if err != nil {
			t.Fatal(err)
		}
		wantInventory(t, inventory, d.Digest)
	}
}

// files reads all files of a directory.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantPrograms unpacks an image. It runs the programs for this machine.
func wantPrograms(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != architecture || config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.version"] != "v1" {
		t.Errorf("the configuration is %+v", config)
	}
	text := onlyLayer(t, image)
	dir, programs := t.TempDir(), 0
	for archive := tar.NewReader(text); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		body, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(header.Name, "etc/") {
			if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(body) {
				t.Errorf("%s has no certificates", header.Name)
			}
			continue
		}
		programs++
		path := filepath.Join(dir, header.Name)
		if err := os.WriteFile(path, body, 0o755); err != nil {
			t.Fatal(err)
		}
		if program, err := elf.NewFile(bytes.NewReader(body)); err != nil || program.Machine != machines[architecture] {
			t.Errorf("%s is not for %s: %v", header.Name, architecture, err)
		}
		if bytes.Contains(body, []byte(must(filepath.Abs(".")))) {
			t.Errorf("%s has the path of the repository", header.Name)
		}
		if architecture == runtime.GOARCH && runtime.GOOS == "linux" {
			if out, err := exec.CommandContext(t.Context(), path, "--help").CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", header.Name, err, out)
			}
		}
	}
	if want := len(trial("").packages); programs != want {
		t.Errorf("the image has %d programs, want %d", programs, want)
	}
	if got := config.Config.Entrypoint; len(got) != 1 {
		t.Errorf("the entrypoint is %q", got)
	} else if _, err := os.Stat(filepath.Join(dir, got[0])); err != nil {
		t.Error(err)
	}
}

// onlyLayer opens the only layer of an image until the test ends.
func onlyLayer(t *testing.T, image v1.Image) io.Reader {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	text, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { text.Close() })
	return text
}

// wantInventory reads the SBOM of an image.
func wantInventory(t *testing.T, inventory v1.Image, of v1.Hash) {
	t.Helper()
	manifest, err := inventory.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Subject == nil || manifest.Subject.Digest != of {
		t.Errorf("the SBOM is about %+v, want %s", manifest.Subject, of)
	}
	text := onlyLayer(t, inventory)
	var d spdxDocument
	if err := json.NewDecoder(text).Decode(&d); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{d.SPDXID: true}
	for _, p := range d.Packages {
		if known[p.SPDXID] {
			t.Errorf("%s is there twice", p.SPDXID)
		}
		known[p.SPDXID] = true
	}
	for _, r := range d.Relationships {
		if !known[r.Element] || !known[r.Related] {
			t.Errorf("a relationship is about what is not there: %+v", r)
		}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(d.Packages, func(p spdxPackage) bool { return p.Name == name && p.Version != "" })
	}
	if !has("stdlib") || whole() && !has("github.com/nats-io/nats.go") {
		t.Errorf("the SBOM has %d packages, and lacks what the programs are made of", len(d.Packages))
	}
}

// A registry gets the image of each platform under the tag, and lists the SBOM of each.
func TestPushedImages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	b := trial(filepath.Join(t.TempDir(), "images"))
	b.packages, b.source, b.entrypoint = []string{"./testdata/hello"}, ".", "/hello"
	b.repository = strings.TrimPrefix(server.URL, "http://") + "/team/hello"
	digest, err := b.write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(b.repository + ":v1")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := index.Digest(); err != nil || got.String() != digest {
		t.Errorf("the registry has %s, %v, want %s", got, err, digest)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("the registry has %+v, %v", manifest, err)
	}
	for _, d := range manifest.Manifests {
		referrers, err := remote.Referrers(tag.Context().Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := referrers.IndexManifest(); err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != string(sbomMediaType) {
			t.Errorf("%s has the referrers %+v, %v", d.Platform, list, err)
		}
	}
	b.repository = "Not a repository"
	if _, err := b.write(t.Context()); err == nil || !strings.Contains(err.Error(), "--push") {
		t.Errorf("a wrong repository gives %v", err)
	}
}

func TestWrongFlagsAreErrors(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`"windows/amd64" is no platform`: {"--platforms=linux/amd64,windows/amd64"},
		`"" is no platform`:              {"--platforms="},
		"not defined":                    {"--platform=linux/amd64"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q, got %v", args, want, err)
		}
	}
	b := trial(filepath.Join(t.TempDir(), "images"))
	b.packages = []string{"./testdata/absent"}
	if _, err := b.write(t.Context()); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("a program that does not exist gives %v", err)
	}
	if _, err := os.Stat(b.out); err == nil {
		t.Error("a build that failed has left a layout")
	}
}

func must(path string, err error) string {
	if err != nil {
		panic(err)
	}
	return path
}

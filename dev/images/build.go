package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// build says what to build.
type build struct {
	title, version string
	// source is the directory of the repository, out that of the layout.
	source, out string
	// packages are the programs. entrypoint is the path of the program that the image runs by default.
	packages   []string
	entrypoint string
	platforms  []v1.Platform
	// repository is where to push to, without a tag; empty for nowhere.
	repository string

	commit commit
}

// commit is the state of the repository.
type commit struct {
	hash string
	time time.Time
}

// write builds the programs, and replaces the layout. It returns the digest of the index of all platforms.
func (b *build) write(ctx context.Context) (digest string, err error) {
	if b.commit, err = readCommit(ctx, b.source); err != nil {
		return "", err
	}
	if b.version == "" {
		b.version = b.commit.hash
	}
	var tag name.Tag
	if b.repository != "" {
		if tag, err = name.NewTag(b.repository+":"+b.version, name.StrictValidation); err != nil {
			return "", fmt.Errorf("--push: %w", err)
		}
	}
	work, err := os.MkdirTemp("", "sluice-images-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the programs: %w", err)
	}
	defer os.RemoveAll(work)

	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var inventories []mutate.IndexAddendum
	for _, platform := range b.platforms {
		dir := filepath.Join(work, platform.Architecture+platform.Variant)
		if err := b.compile(ctx, platform, dir); err != nil {
			return "", err
		}
		image, err := b.image(platform, dir)
		if err != nil {
			return "", fmt.Errorf("make the image for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
		inventory, err := b.inventory(image, dir)
		if err != nil {
			return "", fmt.Errorf("make the SBOM for %s: %w", platform, err)
		}
		inventories = append(inventories, mutate.IndexAddendum{Add: inventory})
	}
	index = mutate.Annotations(index, b.labels()).(v1.ImageIndex)
	hash, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("compute the digest: %w", err)
	}
	if err := b.writeLayout(index, inventories); err != nil {
		return "", err
	}
	if b.repository != "" {
		err = push(ctx, tag, index, inventories)
	}
	return hash.String(), err
}

// push sends the images, and then their SBOMs, to a repository.
func push(ctx context.Context, tag name.Tag, index v1.ImageIndex, inventories []mutate.IndexAddendum) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	for _, inventory := range inventories {
		digest, err := inventory.Add.Digest()
		if err == nil {
			err = remote.Write(tag.Context().Digest(digest.String()), inventory.Add.(v1.Image), options...)
		}
		if err != nil {
			return fmt.Errorf("push the SBOM of %s: %w", tag, err)
		}
	}
	return nil
}

// writeLayout replaces the layout in one step, so that nobody reads half of it.
func (b *build) writeLayout(index v1.ImageIndex, inventories []mutate.IndexAddendum) error {
	if err := os.MkdirAll(filepath.Dir(b.out), 0o755); err != nil {
		return fmt.Errorf("make the directory of the layout: %w", err)
	}
	fresh := b.out + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove an unfinished layout: %w", err)
	}
	path, err := layout.Write(fresh, empty.Index)
	if err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	name := map[string]string{"org.opencontainers.image.ref.name": b.version}
	errs := []error{path.AppendIndex(index, layout.WithAnnotations(name))}
	for _, inventory := range inventories {
		errs = append(errs, path.AppendImage(inventory.Add.(v1.Image)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	if err := errors.Join(os.RemoveAll(b.out), os.Rename(fresh, b.out)); err != nil {
		return fmt.Errorf("replace the layout: %w", err)
	}
	return nil
}

// compile builds the programs for a platform. The path of the repository is not in them.
func (b *build) compile(ctx context.Context, platform v1.Platform, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for the programs: %w", err)
	}
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}, b.packages...)
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = b.source
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs for %s: %w\n%s", platform, err, out)
	}
	return nil
}

// image makes the image of a platform.
func (b *build) image(platform v1.Platform, dir string) (v1.Image, error) {
	layer, err := b.layer(dir)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: b.commit.time}
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "dev/images"}}); err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant, config.Created = platform.OS, platform.Architecture, platform.Variant, created
	config.Config.User, config.Config.Entrypoint, config.Config.Labels = "65532:65532", []string{b.entrypoint}, b.labels()
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return mutate.Annotations(image, b.labels()).(v1.Image), nil
}

// labels are the standard labels of an image.
func (b *build) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    b.title,
		"org.opencontainers.image.version":  b.version,
		"org.opencontainers.image.revision": b.commit.hash,
		"org.opencontainers.image.created":  b.commit.time.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// inventory makes the SBOM of an image, as an artifact that refers to the image.
func (b *build) inventory(image v1.Image, dir string) (v1.Image, error) {
	text, err := b.sbom(dir)
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomMediaType)
	if artifact, err = mutate.Append(artifact, mutate.Addendum{Layer: static.NewLayer(text, sbomMediaType), MediaType: sbomMediaType}); err != nil {
		return nil, fmt.Errorf("add the SBOM: %w", err)
	}
	return mutate.Subject(artifact, *subject).(v1.Image), nil
}

// readCommit returns the commit that is checked out. A changed tree is marked, and has the time of its commit.
func readCommit(ctx context.Context, dir string) (commit, error) {
	git := func(args ...string) (string, error) {
		c := exec.CommandContext(ctx, "git", args...)
		c.Dir = dir
		out, err := c.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	line, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return commit{}, err
	}
	changes, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return commit{}, err
	}
	hash, stamp, _ := strings.Cut(line, " ")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("read the time of the commit: %w", err)
	}
	if changes != "" {
		hash += "-modified"
	}
	return commit{hash, time.Unix(seconds, 0).UTC()}, nil
}

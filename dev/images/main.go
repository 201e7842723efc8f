// Command images builds the container image of Sluice as an OCI layout, for several platforms and without a container engine. It cross-compiles the programs
// and writes one layer for each platform, with the programs and the certificate authorities of Mozilla's root program. Two builds of one commit are
// identical, byte by byte: every time in the image is that of the commit.
//
// Each image has an SBOM in SPDX, as an artifact that refers to it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	b := build{title: "Sluice", packages: []string{"./cmd/sluice", "./cmd/watcher", "./cmd/executor", "./cmd/analyzer"}, entrypoint: "/sluice"}
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.StringVar(&b.source, "source", "../..", "directory of the repository")
	flags.StringVar(&b.out, "out", "../../bin/images", "directory of the OCI layout; replaced")
	flags.StringVar(&b.version, "version", "", "version of the image; empty means the commit")
	flags.StringVar(&b.repository, "push", "", "repository to push the images and their SBOMs to, such as registry.example.com/sluice; with the login of docker or podman")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for platform := range strings.SplitSeq(*platforms, ",") {
		p, err := v1.ParsePlatform(platform)
		if err != nil || p.OS != "linux" || p.Architecture == "" {
			return fmt.Errorf("--platforms: %q is no platform such as linux/amd64", platform)
		}
		b.platforms = append(b.platforms, *p)
	}
	digest, err := b.write(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("images: %s has %s for %s.\n", b.out, digest, *platforms)
	if b.repository != "" {
		fmt.Printf("images: %s:%s is pushed.\n", b.repository, b.version)
	}
	return nil
}

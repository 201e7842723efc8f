package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// sbomMediaType is the registered type of an SPDX document in JSON.
const sbomMediaType types.MediaType = "application/spdx+json"

// The fields of SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/) that an SBOM of Go modules needs.
type (
	spdxDocument struct {
		SPDXVersion   string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		SPDXID        string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		CreationInfo  spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string          `json:"SPDXID"`
		Name             string          `json:"name"`
		Version          string          `json:"versionInfo,omitempty"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		ExternalRefs     []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// sbom lists the programs of a directory, and the modules and the Go version that they were built from, as they say themselves.
func (b *build) sbom(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the programs: %w", err)
	}
	d := spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: b.title + " " + b.version,
		Namespace:    "https://sluice.dev/spdx/" + b.commit.hash + "/" + filepath.Base(dir),
		CreationInfo: spdxCreation{Created: b.commit.time.Format(time.RFC3339), Creators: []string{"Tool: sluice-images"}},
	}
	used := map[string]spdxPackage{}
	for _, entry := range entries {
		info, err := buildinfo.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the modules of %s: %w", entry.Name(), err)
		}
		program := spdxPackage{SPDXID: "SPDXRef-Program-" + entry.Name(), Name: entry.Name(), Version: b.version, DownloadLocation: "NOASSERTION"}
		d.Packages = append(d.Packages, program)
		d.Relationships = append(d.Relationships, spdxRelationship{d.SPDXID, "DESCRIBES", program.SPDXID})
		modules := []spdxPackage{modulePackage("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules = append(modules, modulePackage(m.Path, m.Version))
		}
		for _, m := range modules {
			used[m.SPDXID] = m
			d.Relationships = append(d.Relationships, spdxRelationship{program.SPDXID, "DEPENDS_ON", m.SPDXID})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		d.Packages = append(d.Packages, used[id])
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the SBOM: %w", err)
	}
	return text, nil
}

// modulePackage describes a module. An identifier may have letters, digits, dots and dashes only.
func modulePackage(name, version string) spdxPackage {
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, name+"-"+version)
	return spdxPackage{
		SPDXID: "SPDXRef-Module-" + id, Name: name, Version: version, DownloadLocation: "NOASSERTION",
		ExternalRefs: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + name + "@" + version}},
	}
}

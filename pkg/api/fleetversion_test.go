package api

import "testing"

func TestImagesAreTheSameVersionInEachRegistry(t *testing.T) {
	t.Parallel()
	base := map[string]string{"app": "registry.eu.example.com/shop/app:1.2", "proxy": "proxy:3"}
	for name, c := range map[string]struct {
		images map[string]string
		same   bool
	}{
		"from a mirror":                 {map[string]string{"app": "localhost:5000/shop/app:1.2", "proxy": "localhost/proxy:3"}, true},
		"with another tag":              {map[string]string{"app": "registry.eu.example.com/shop/app:1.3", "proxy": "proxy:3"}, false},
		"of another path":               {map[string]string{"app": "registry.eu.example.com/other/app:1.2", "proxy": "proxy:3"}, false},
		"of containers the other way":   {map[string]string{"proxy": "shop/app:1.2", "app": "proxy:3"}, false},
		"with one container more":       {map[string]string{"app": "shop/app:1.2", "proxy": "proxy:3", "init": "proxy:3"}, false},
		"without a registry's host":     {map[string]string{"app": "shop/app:1.2", "proxy": "proxy:3"}, true},
		"with a digest instead of tags": {map[string]string{"app": "shop/app@sha256:aa", "proxy": "proxy:3"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := FleetImagesDigest(c.images) == FleetImagesDigest(base); got != c.same {
				t.Errorf("it is the same version: %t", got)
			}
		})
	}
	if FleetImagesDigest(map[string]string{"app": "a/app:1@sha256:aa"}) != FleetImagesDigest(map[string]string{"app": "b.example.com/x@sha256:aa"}) {
		t.Error("one digest under two names is not the same version")
	}
}

func TestAReleaseMatchesByAllThatItNames(t *testing.T) {
	t.Parallel()
	images := map[string]string{"app": "app:2"}
	both := FleetVersion{Version: "v2", Images: FleetImagesDigest(images)}
	for name, c := range map[string]struct {
		release FleetRelease
		version FleetVersion
		want    bool
	}{
		"by its version":                    {FleetRelease{Version: "v2"}, both, true},
		"by its images":                     {FleetRelease{Images: images}, both, true},
		"by both":                           {FleetRelease{Version: "v2", Images: images}, both, true},
		"not by one of both":                {FleetRelease{Version: "v2", Images: map[string]string{"app": "app:3"}}, both, false},
		"a workload without a version":      {FleetRelease{Version: "v2"}, FleetVersion{Images: both.Images}, false},
		"nothing matches without any names": {FleetRelease{}, FleetVersion{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.release.Matches(c.version); got != c.want {
				t.Errorf("it matches: %t", got)
			}
		})
	}
}

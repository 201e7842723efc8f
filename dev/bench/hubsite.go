package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nkeys"

	"sluice.dev/sluice/pkg/api"
)

// Members of the fleet: the cluster of the hub, and the cluster of the bench.
const (
	firstMember  = "first"
	secondMember = "second"
)

// hubSite is the hub of a fleet with the parts of Sluice. Its cluster is a member too.
type hubSite struct {
	*site
	// releases are its FleetRollouts, and members its FleetMembers.
	releases, members *follower
}

// rawJSON is a part of an object that is written as JSON.
type rawJSON = json.RawMessage

// openHub starts a hub, and makes both clusters its members. The caller must close it, also after an error.
func (b *bench) openHub(ctx context.Context) (*hubSite, error) {
	opts := b.opts
	h := &hubSite{&site{opts: opts, dir: filepath.Join(b.dir, "hub"), natsMembers: []string{firstMember, secondMember}}, newFollower(), newFollower()}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return h, fmt.Errorf("make the directory of the hub: %w", err)
	}
	if err := h.build(ctx); err != nil {
		return h, err
	}
	own, public, err := h.newKey("hub")
	if err != nil {
		return h, err
	}
	trusted := filepath.Join(h.dir, "hub.pub")
	if err := os.WriteFile(trusted, []byte(public), 0o600); err != nil {
		return h, err
	}
	h.executorFlags = []string{"--fleet-hub-key-file", own}
	for name, s := range map[string]*site{firstMember: h.site, secondMember: b.site} {
		flags, err := h.join(ctx, name, trusted)
		if err != nil {
			return h, err
		}
		s.executorFlags = append(s.executorFlags, flags...)
	}
	return h, h.run(ctx, 1)
}

// newKey writes a private key to a file.
func (h *hubSite) newKey(name string) (file, public string, err error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return "", "", err
	}
	seed, err := key.Seed()
	if err != nil {
		return "", "", err
	}
	if public, err = key.PublicKey(); err != nil {
		return "", "", err
	}
	file = filepath.Join(h.dir, name+".key")
	return file, public, os.WriteFile(file, seed, 0o600)
}

// join makes a member, and returns the flags of its executors.
func (h *hubSite) join(ctx context.Context, name, trusted string) (flags []string, err error) {
	key, public, err := h.newKey(name)
	if err != nil {
		return nil, err
	}
	password := filepath.Join(h.dir, name+".password")
	if err := os.WriteFile(password, []byte(name), 0o600); err != nil {
		return nil, err
	}
	err = h.client.create(ctx, collection(templatesPath, "", "fleetmembers"), object{"apiVersion": api.FleetGroupVersion().String(), "kind": api.KindFleetMember,
		"metadata": object{"name": name, "labels": object{"wave": name, label: "members"}}, "spec": object{"key": public}})
	return []string{"--fleet-member", name, "--fleet-member-key-file", key, "--fleet-hub-public-keys-file", trusted,
		"--fleet-nats-url", h.natsAt.URL, "--fleet-nats-password-file", password}, err
}

// awaitMembers returns when the hub has heard both members.
func (h *hubSite) awaitMembers(ctx context.Context) error {
	h.members.follow(ctx, h.client, collection(templatesPath, "", "fleetmembers"), "members")
	for _, name := range []string{firstMember, secondMember} {
		if _, err := h.members.await(ctx, rolloutName{"", name}, "it is Ready", func(v view) bool { return v.Status.Phase == api.Phase(api.FleetMemberReady) }); err != nil {
			return err
		}
	}
	return nil
}

func (h *hubSite) close() error {
	return errors.Join(h.releases.close(), h.members.close(), h.site.close())
}

// approveWave approves the wave that a FleetRollout waits after.
func approveWave(v view) string {
	return `{"status":{"command":{"action":"Approve","actor":"admin","epoch":` + strconv.FormatInt(v.Status.Epoch, 10) + `,"pauseSeq":` + strconv.FormatInt(v.Status.PauseSeq, 10) + `}}}`
}

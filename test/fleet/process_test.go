package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// This file runs executors of the shared fleet as processes, which a story kills and stops.

// process is an executor in a process of its own. It ends with its test at the latest.
type process struct {
	*world.Process
	t    *testing.T
	kill func()
}

// start starts a process of a program.
func start(t *testing.T, p world.Program) *process {
	t.Helper()
	x, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		if err := x.Kill(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(kill)
	return &process{x, t, kill}
}

// freeze stops the process until the caller calls thaw.
func (x *process) freeze() (thaw func()) {
	x.t.Helper()
	if err := x.Stop(); err != nil {
		x.t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		if err := x.Continue(); err != nil {
			x.t.Error(err)
		}
	})
	x.t.Cleanup(thaw)
	return thaw
}

// executorProgram builds the executor once for all stories.
var executorProgram = sync.OnceValues(func() (string, error) { return world.Build(shared.fleet.dir, "executor") })

// withoutOwnHub ends the executors of the hub in the process of the test, until the end of the story. hub starts one as a process.
func (s *story) withoutOwnHub() (hub func() *process) {
	s.t.Helper()
	s.stopHub()
	s.t.Cleanup(func() {
		if err := s.runHub(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	})
	seed, err := s.key.Seed()
	if err != nil {
		s.t.Fatal(err)
	}
	p := s.program(s.hub, "--fleet-hub-key-file", s.file("hub.key", seed))
	return func() *process { return start(s.t, p) }
}

// withoutOwnExecutor ends the executor of a cluster in the process of the test, until the end of the story. executor starts one as a process.
func (s *story) withoutOwnExecutor(cluster string) (executor func() *process) {
	s.t.Helper()
	m := s.members[cluster]
	m.stopExecutor()
	s.t.Cleanup(func() {
		if err := m.runExecutor(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	})
	seed, err := m.key.Seed()
	if err != nil {
		s.t.Fatal(err)
	}
	public, err := s.key.PublicKey()
	if err != nil {
		s.t.Fatal(err)
	}
	p := s.program(m.World, "--fleet-member", cluster, "--fleet-nats-url", m.proxy.URL(), "--fleet-member-key-file", s.file(cluster+".key", seed),
		"--fleet-hub-public-keys-file", s.file("hub.pub", []byte(public)), "--fleet-nats-password-file", s.file(cluster+".password", []byte(m.password)))
	return func() *process { return start(s.t, p) }
}

func (s *story) program(w *world.World, flags ...string) world.Program {
	s.t.Helper()
	binary, err := executorProgram()
	if err != nil {
		s.t.Fatal(err)
	}
	return w.ProgramAt(binary, flags...)
}

// file writes a file for the flags of a process.
func (s *story) file(name string, content []byte) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// oneAfterTheOther is a strategy with one cluster under way at a time, whose pauses a user approves in each cluster.
const oneAfterTheOther = "\n  waves: [{name: all, maxConcurrency: 1}]\n  localPauses: Keep\n"

// granted waits for a grant, and returns its one cluster.
func (s *story) granted(seq int64) (cluster string) {
	s.t.Helper()
	status := s.await(fmt.Sprintf("grant %d", seq), func(status api.FleetRolloutStatus) bool { return status.Grant != nil && status.Grant.Seq == seq })
	if len(status.Grant.Clusters) != 1 {
		s.t.Fatalf("grant %d is for %v, and one cluster may be under way", seq, status.Grant.Clusters)
	}
	return status.Grant.Clusters[0]
}

// An executor of the hub and one of a cluster are killed in the middle of a wave, each between a commit and what follows from it. Others go on.
func TestExecutorsAreKilledInTheMiddleOfAWave(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	hub, executors := s.withoutOwnHub(), map[string]func() *process{}
	running := map[string]*process{}
	for name := range s.members {
		executors[name] = s.withoutOwnExecutor(name)
		running[name] = executors[name]()
	}
	first := hub()
	s.release("  release: {version: v2}" + oneAfterTheOther)
	s.deliver("v2", "eu1", "eu2", "eu3")
	for seq := range int64(3) {
		cluster := s.granted(seq + 1)
		first.kill() // its permit and its order may not be written yet
		first = hub()
		s.member(cluster, world.PausedAt(1))
		running[cluster].kill()
		s.members[cluster].Approve(t, s.namespace, "checkout")
		running[cluster] = executors[cluster]()
		s.member(cluster, serves("v2"))
	}
	s.phase(api.FleetPhaseSucceeded, "Completed")
}

// One of two executors of the hub stops for longer than its leases, just after a grant. The other one goes on. The first one then wakes up in the middle of its
// work, and does no harm.
func TestAnExecutorOfTheHubWakesUpAfterItsLeaseIsGone(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	hub := s.withoutOwnHub()
	pair := []*process{hub(), hub()}
	for i, version := range []string{"v2", "v3"} {
		s.release("  release: {version: " + version + "}" + oneAfterTheOther)
		s.deliver(version, "eu1", "eu2", "eu3")
		grants := int64(len(s.members) * i)
		s.granted(grants + 1)
		thaw := pair[i].freeze()
		s.completes(grants+1, version)
		s.completes(grants+2, version) // granted by the other executor alone
		thaw()
		s.completes(grants+3, version)
		s.await(version+" to end", func(status api.FleetRolloutStatus) bool {
			return status.Phase == api.FleetPhaseSucceeded && status.Release.Version == version
		})
	}
}

// completes lets the cluster of a grant complete.
func (s *story) completes(grant int64, version string) {
	s.t.Helper()
	cluster := s.granted(grant)
	s.member(cluster, func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.Fleet.Releasing.Version == version })
	s.members[cluster].Approve(s.t, s.namespace, "checkout")
	s.member(cluster, serves(version))
}

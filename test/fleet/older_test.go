package fleet

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// This file plays the last version without fleets beside this one.

// lastWithoutFleets is the last commit of that version.
const lastWithoutFleets = "163fa8ffb8a022bffc475db48993adb7480b6b71"

var errNoHistory = errors.New("this clone has no commit " + lastWithoutFleets + ", which is the last version without fleets: git fetch --unshallow")

// olderPrograms builds the executor and sluice of the version without fleets once, and returns their directory.
var olderPrograms = sync.OnceValues(func() (dir string, err error) {
	source, dir := filepath.Join(shared.fleet.dir, "older"), filepath.Join(shared.fleet.dir, "older-bin")
	if exec.Command("git", "-C", world.Root(), "cat-file", "-e", lastWithoutFleets+"^{commit}").Run() != nil {
		return "", errNoHistory
	}
	for _, command := range [][]string{
		{"git", "clone", "--quiet", "--shared", "--no-checkout", world.Root(), source},
		{"git", "-C", source, "checkout", "--quiet", "--detach", lastWithoutFleets},
		{"go", "build", "-C", source, "-buildvcs=false", "-o", dir + string(os.PathSeparator), "./cmd/executor", "./cmd/sluice"},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", errors.New(strings.Join(command, " ") + ": " + err.Error() + "\n" + string(out))
		}
	}
	return dir, nil
})

// older returns a program of the version without fleets. It skips the test in a clone without the history.
func older(t *testing.T, program string) string {
	t.Helper()
	dir, err := olderPrograms()
	if errors.Is(err, errNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, program)
}

// awaitRefusals waits until the API server has refused n writes of an executor because of its version.
func awaitRefusals(ctx context.Context, n int, journal func() ([]world.Write, error)) error {
	for {
		writes, err := journal()
		if err != nil {
			return err
		}
		refusals := 0
		for _, w := range writes {
			if w.Resource == "rollouts" && w.Code == 422 && strings.Contains(w.Message, "a version without fleets") {
				refusals++
			}
		}
		if refusals >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

// olderUntilRefused starts an older executor in a cluster, and kills it after five refusals. After each one, the older executor doubles the delay of the Rollout, up
// to a minute.
func (s *story) olderUntilRefused(cluster, binary string) *process {
	s.t.Helper()
	journal := s.members[cluster].Journal(s.namespace)
	executor := start(s.t, s.members[cluster].ProgramAt(binary))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		switch err := awaitRefusals(s.t.Context(), 5, journal); {
		case err == nil:
			executor.kill()
		case s.t.Context().Err() == nil:
			s.t.Error(err)
		}
	}()
	s.t.Cleanup(func() { <-ended })
	return executor
}

// Executors of a version without fleets, alone in their cluster, let nothing past the hold. They cannot write the status of a governed Rollout. Once the cluster
// has an executor of this version again, the release goes on.
func TestOlderExecutorsAloneReleaseNothing(t *testing.T) {
	s := newStory(t)
	binary := older(t, "executor")
	s.installed("v1")
	executor := s.withoutOwnExecutor("eu1")
	journal := s.members["eu1"].Journal(s.namespace)
	olderExecutor := start(t, s.members["eu1"].ProgramAt(binary))
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	if err := awaitRefusals(world.Patient(t), 1, journal); err != nil {
		t.Fatalf("the API server of eu1 has refused no write of an older executor: %v", err)
	}
	s.member("eu1", func(r *api.Rollout) bool { return r.Status.Sluice.State == "Idle" && serves("v1")(r) })
	executor()
	olderExecutor.kill()
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", serves("v2"))
}

// Two clusters and the hub run an older executor next to a new one. The older one starts last, so it configures NATS last. The release only takes longer.
func TestOlderExecutorsBesideNewOnesCostTimeOnly(t *testing.T) {
	s := newStory(t)
	binary := older(t, "executor")
	s.installed("v1")
	start(t, s.hub.ProgramAt(binary))
	inEU1, inEU2 := s.olderUntilRefused("eu1", binary), s.olderUntilRefused("eu2", binary)
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.member("eu1", serves("v2"))
	inEU1.kill()
	start(t, s.hub.ProgramAt(binary)) // the stream of work loses the subjects of the fleet once more
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	inEU2.kill()
	s.command(api.FleetCommand{Action: api.FleetCommandRollback})
	s.await("the withdrawal", func(status api.FleetRolloutStatus) bool { return status.Phase == api.FleetPhaseWithdrawn })
	s.member("eu2", serves("v1"))
}

// The command line of a version without fleets shows and approves a governed Rollout, and keeps what it remembers of its fleet.
func TestTheOlderCommandLineApprovesAGovernedRelease(t *testing.T) {
	s := newStory(t)
	binary := older(t, "sluice")
	s.installed("v1")
	s.release("  release: {version: v2}\n  localPauses: Keep" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	before := s.member("eu1", world.PausedAt(1)).Status.Fleet.Used
	if shown := s.sluice(binary, "get", "rollout", "checkout"); !strings.Contains(shown, "checkout") || !strings.Contains(shown, "1") {
		t.Errorf("sluice get rollout shows\n%s", shown)
	}
	s.sluice(binary, "approve", "checkout")
	r := s.member("eu1", serves("v2"))
	if *r.Status.Fleet.Used != *before {
		t.Errorf("the release has used up %+v, and %+v after the approval", before, r.Status.Fleet.Used)
	}
	s.phase(api.FleetPhaseWaiting, "Approval")
}

// sluice runs a command in eu1.
func (s *story) sluice(binary string, args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(world.Patient(s.t), binary, append(args, "-n", s.namespace, "--kubeconfig", s.members["eu1"].Kubeconfig)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("sluice %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

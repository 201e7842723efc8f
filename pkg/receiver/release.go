package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/receiver/client"
)

// FleetReader reads the FleetRollouts of a hub.
type FleetReader interface {
	ReadFleetRollout(ctx context.Context, name types.NamespacedName) (*api.FleetRollout, error)
	// ListFleetTargets lists the clusters of a FleetRollout that have had a permit.
	ListFleetTargets(ctx context.Context, of *api.FleetRollout) ([]api.FleetTarget, error)
	ListFleetMembers(ctx context.Context) ([]api.FleetMember, error)
}

const (
	// releaseCheck is how often a request that waits reads the FleetRollout again, if no event about it comes. Time alone can change an answer.
	releaseCheck = 5 * time.Second
	// releasePause is the least time between two reads. Many clusters send many events.
	releasePause = 250 * time.Millisecond
)

// serveRelease says how far a release is. It waits until the release has ended, or needs a person, or the time that the caller gives is over.
func (d *Receiver) serveRelease(w http.ResponseWriter, r *http.Request) {
	wait, err := requestedWait(r)
	wanted, wantedErr := requestedRelease(r)
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	key := queue.Key{Cluster: d.ClusterName, Namespace: name.Namespace, Name: name.Name, Task: queue.TaskFleet}
	if err := errors.Join(err, wantedErr, key.Validate()); err != nil {
		d.refuseRequest(w, http.StatusBadRequest, errorSentence(err))
		return
	}
	caller, leave, ok := d.enterCaller(w, r, "ask again")
	if !ok {
		return
	}
	defer leave()
	p := Permission{Verb: "get", Resource: api.FleetRolloutResource(), Namespace: name.Namespace, Name: name.Name}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	refused, ok := d.checkPermission(ctx, answer{}, caller, p)
	cancel()
	if !ok {
		d.writeAnswers(w, []answer{refused}, false)
		return
	}
	d.allowTime(w, wait+2*askTime)
	told, err := d.awaitRelease(r.Context(), key, &wanted, time.Now().Add(wait))
	switch {
	case apierrors.IsNotFound(err):
		d.refuseRequest(w, http.StatusNotFound, fmt.Sprintf("There is no FleetRollout %s in cluster %s; check its name, and whether this is the hub of the fleet.", name, d.ClusterName))
	case err != nil:
		d.Logger.Error("cannot read a FleetRollout; the watcher must be allowed to get fleetrollouts, and to list fleettargets and fleetmembers", "error", err)
		d.writeRetryLater(w, http.StatusServiceUnavailable, "The API server does not say how far the release is; ask again in a moment.")
	default:
		status := map[int]int{0: http.StatusOK, 4: http.StatusAccepted}[told.ExitCode]
		if status == 0 {
			status = http.StatusConflict
		}
		d.requests.WithLabelValues(strconv.Itoa(status)).Inc()
		d.writeJSON(w, status, told)
	}
}

// requestedRelease returns the release that the caller asks about.
func requestedRelease(r *http.Request) (fleet.Wanted, error) {
	query := r.URL.Query()
	images, err := fleet.ParseImages(query["image"])
	if err != nil {
		return fleet.Wanted{}, fmt.Errorf("image %w", err)
	}
	wanted := fleet.Wanted{UntilWave: query.Get("until-wave"), UID: query.Get("uid"), Release: api.FleetRelease{Version: query.Get("version"), Images: images}}
	if text := query.Get("epoch"); text != "" {
		epoch, err := strconv.ParseInt(text, 10, 64)
		if err != nil || epoch < 1 {
			return wanted, fmt.Errorf("epoch=%q is not the number of a release", text)
		}
		wanted.Epoch = epoch
	}
	return wanted, nil
}

// awaitRelease reads a release until it has ended, needs a person, or end has come.
func (d *Receiver) awaitRelease(ctx context.Context, key queue.Key, wanted *fleet.Wanted, end time.Time) (client.ReleaseAnswer, error) {
	changed, stop, err := d.Queue.WatchEvents(key)
	if err != nil {
		return client.ReleaseAnswer{}, err
	}
	defer stop()
	for {
		told, err := d.readRelease(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, wanted)
		left := time.Until(end)
		if err != nil || told.ExitCode != fleet.UnderWay.ExitCode() || left <= 0 {
			return told, err
		}
		next := time.After(min(left, releaseCheck))
		select {
		case <-time.After(min(left, releasePause)):
		case <-ctx.Done():
			return told, nil
		}
		select {
		case <-changed:
		case <-next:
		case <-ctx.Done():
			return told, nil
		}
	}
}

// readRelease reads how far a release is now.
func (d *Receiver) readRelease(ctx context.Context, name types.NamespacedName, wanted *fleet.Wanted) (client.ReleaseAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := d.Fleets.ReadFleetRollout(ctx, name)
	if err != nil {
		return client.ReleaseAnswer{}, err
	}
	if present := r.Status.Release; wanted.Release.Key() == "" && wanted.Epoch > 0 && present != nil {
		wanted.Release = *present // the epoch names the release
	}
	if wanted.Release.Key() == "" && r.Spec.Release != nil {
		wanted.Release = *r.Spec.Release
	}
	standing, message := fleet.StandingOf(r, wanted, time.Now())
	told := client.ReleaseAnswer{Standing: standing.String(), ExitCode: standing.ExitCode(), Message: message, UID: string(r.UID), Epoch: r.Status.Epoch}
	if r.Status.Release != nil {
		told.Version = r.Status.Release.Version
	}
	if n := int(r.Status.Wave); n > 0 && n <= len(r.Status.Waves) {
		told.Wave = r.Status.Waves[n-1].Name
	}
	if standing != fleet.Succeeded {
		return told, nil
	}
	targets, err := d.Fleets.ListFleetTargets(ctx, r)
	if err != nil {
		return told, err
	}
	members, err := d.Fleets.ListFleetMembers(ctx)
	if err != nil {
		return told, err
	}
	for _, c := range fleet.ReadClusters(r, targets, members, time.Now()) {
		if c.Lacks() {
			told.Lacking = append(told.Lacking, c)
		}
	}
	return told, nil
}

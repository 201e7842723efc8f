package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice.dev/sluice/pkg/fleet"
)

// ReleaseAnswer says how far the release of a FleetRollout is.
type ReleaseAnswer struct {
	// Standing is one of NotBegun, UnderWay, NeedsPerson, Succeeded, Failed and Superseded. ExitCode is the same as an exit code of sluice fleet status.
	Standing string `json:"standing"`
	ExitCode int    `json:"exitCode"`
	Message  string `json:"message"`
	// UID, Epoch and Wave are the present release and its wave: what an approval needs.
	UID     string `json:"uid"`
	Epoch   int64  `json:"epoch,omitempty"`
	Wave    string `json:"wave,omitempty"`
	Version string `json:"version,omitempty"`
	// Lacking are the clusters of the waves that do not have the version although the release has succeeded: deferred ones, and those that have failed within the budgets.
	Lacking []fleet.ReleaseCluster `json:"lacking,omitempty"`
}

// AwaitRelease asks how far the release of a FleetRollout is, until it has ended or needs a person, or until ctx ends. Then it returns the last answer, and
// [ErrUndecided] if the release still goes on. It calls progress with each answer in between.
func (c *Client) AwaitRelease(ctx context.Context, namespace, name string, wanted fleet.Wanted, progress func(ReleaseAnswer)) (last ReleaseAnswer, err error) {
	address, err := c.serverURL()
	if err != nil {
		return last, err
	}
	address = address.JoinPath("v1", "namespaces", namespace, "fleetrollouts", name, "release")
	client, err := c.newHTTPClient()
	if err != nil {
		return last, err
	}
	defer client.CloseIdleConnections()
	pause, warned := firstPause, false
	wait := time.Millisecond // the first answer says where the release is
	for {
		address.RawQuery = releaseQuery(wanted, min(decisionWait(ctx), wait)).Encode()
		wait = hold
		told, r, err := c.getRelease(ctx, client, address.String())
		switch {
		case err == nil && told.ExitCode != fleet.UnderWay.ExitCode():
			return told, nil
		case err == nil:
			last, pause = told, firstPause
			progress(told)
		case !r.retryable:
			return last, err
		case !warned && ctx.Err() == nil:
			c.Warn(err)
			warned = true
		}
		select {
		case <-ctx.Done():
			if last.Standing == "" && err != nil {
				return last, err
			}
			return last, ErrUndecided
		case <-time.After(max(pause, r.retryAfter)):
			pause = min(2*pause, lastPause)
		}
	}
}

// ReadRelease says how far the release of a FleetRollout is now.
func (c *Client) ReadRelease(ctx context.Context, namespace, name string, wanted fleet.Wanted) (ReleaseAnswer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	told, err := c.AwaitRelease(ctx, namespace, name, wanted, func(ReleaseAnswer) { cancel(errAnswered) })
	if errors.Is(context.Cause(ctx), errAnswered) {
		return told, nil
	}
	return told, err
}

// errAnswered ends a wait after its first answer.
var errAnswered = errors.New("answered")

func releaseQuery(wanted fleet.Wanted, wait time.Duration) url.Values {
	q := url.Values{"wait": {wait.String()}}
	for name, value := range map[string]string{"version": wanted.Release.Version, "uid": wanted.UID, "until-wave": wanted.UntilWave} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if wanted.Epoch > 0 {
		q.Set("epoch", strconv.FormatInt(wanted.Epoch, 10))
	}
	for container, image := range wanted.Release.Images {
		q.Add("image", container+"="+image)
	}
	return q
}

func (c *Client) getRelease(ctx context.Context, client *http.Client, address string) (told ReleaseAnswer, r reply, err error) {
	response, body, r, err := c.exchange(ctx, client, http.MethodGet, address, nil)
	if err != nil {
		return told, r, err
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusConflict, http.StatusAccepted:
		if err := json.Unmarshal(body, &told); err != nil || told.Standing == "" {
			return told, reply{}, fmt.Errorf("%s does not answer as the approval receiver of Sluice does; check the address", response.Request.URL.Host)
		}
		return told, reply{}, nil
	}
	r, err = readProblem(response, body)
	return told, r, err
}

package rollout

import (
	"errors"
	"strconv"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// PercentNone is the share of a step or a release whose new version gets no requests.
const PercentNone = "0%"

// Traffic returns the share of the requests that a step asks for, in the form of status.sluice.traffic; "" for a step that routes no requests.
func (s Step) Traffic() string {
	switch {
	case s.Weight != nil:
		return s.Weight.String()
	case len(s.Matches) > 0:
		return TrafficMatches
	case s.Mirror != nil:
		return PercentNone
	}
	return ""
}

// TrafficMatches replaces a share if the gateway selects requests for the new version by their content.
const TrafficMatches = "matches"

// TrafficShare returns the share in percent in status.sluice.traffic; ok is false if the field holds no share.
func TrafficShare(told string) (share Percent, ok bool) {
	if !strings.HasSuffix(told, "%") {
		return 0, false
	}
	return parseShare(told)
}

// parseShare reads "0.5%"; ok reports a percentage from 0 to 100.
func parseShare(s string) (share Percent, ok bool) {
	number, percent := strings.CutSuffix(s, "%")
	parsed, err := strconv.ParseFloat(number, 64)
	return Percent(parsed), percent && err == nil && parsed >= 0 && parsed <= 100
}

// parseWeight reads traffic, or its v1alpha1 form.
func parseWeight(s api.Step, style Style, legacy bool) (*Percent, error) {
	switch {
	case s.Weight != nil && !legacy:
		return nil, errors.New("weight belongs to the v1alpha1 form with objectRef: write traffic as a percentage instead")
	case s.Weight != nil && s.Traffic != nil:
		return nil, errors.New("weight and traffic say the same: keep one of them")
	}
	if s.Traffic == nil && s.Weight != nil {
		return new(Percent(*s.Weight)), nil
	}
	if s.Traffic == nil {
		return nil, nil
	}
	share, ok := parseShare(*s.Traffic)
	switch {
	case style == StyleBlueGreen && !ok:
		return nil, errors.New("traffic must be a percentage from 0% to 100%")
	case style != StyleBlueGreen && (!ok || share == 0):
		return nil, errors.New("traffic must be a percentage above 0% and up to 100%")
	}
	return &share, nil
}

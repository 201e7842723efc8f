package api

// Common is what the release shows of itself, whatever its style: part of canaryStatus or of blueGreenStatus. It is nil before the
// Rollout was looked at for the first time.
func (s *RolloutStatus) Common() *CommonStatus {
	switch {
	case s.CanaryStatus != nil:
		return &s.CanaryStatus.CommonStatus
	case s.BlueGreenStatus != nil:
		return &s.BlueGreenStatus.CommonStatus
	}
	return nil
}

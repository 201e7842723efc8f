package fleetmessage

import (
	"fmt"
	"strings"
)

// Prefixes of subjects. A member may publish to its own subjects under prefixUp and prefixBeat, and read its own subjects under prefixDown.
const (
	prefixDown = "sluice.fleet.down."
	prefixUp   = "sluice.fleet.up."
	prefixBeat = "sluice.fleet.beat."
)

// OrderSubject is the subject of the orders to a cluster about a Rollout. The dots of its name are underscores, which no name has.
func OrderSubject(member string, rollout Name) string { return prefixDown + tokens(member, rollout) }

// AnswerSubject is the subject of the answers of a cluster about a Rollout.
func AnswerSubject(member string, rollout Name) string { return prefixUp + tokens(member, rollout) }

// BeatSubject is the subject of the heartbeats of a cluster, or of all clusters for the name "*".
func BeatSubject(member string) string { return prefixBeat + member }

// OrderSubjects and AnswerSubjects select all subjects of a cluster, or of all clusters for the name "*".
func OrderSubjects(member string) string  { return prefixDown + member + ".*.*" }
func AnswerSubjects(member string) string { return prefixUp + member + ".*.*" }

func tokens(member string, rollout Name) string {
	return member + "." + rollout.Namespace + "." + strings.ReplaceAll(rollout.Name, ".", "_")
}

// ParseBeatSubject reads the member of a subject of heartbeats.
func ParseBeatSubject(subject string) (member string, ok bool) {
	member, ok = strings.CutPrefix(subject, prefixBeat)
	return member, ok && member != "" && !strings.Contains(member, ".")
}

// ParseSubject reads the member and the Rollout of a subject of orders or answers.
func ParseSubject(subject string) (member string, rollout Name, err error) {
	text, down := strings.CutPrefix(subject, prefixDown)
	if !down {
		var up bool
		if text, up = strings.CutPrefix(subject, prefixUp); !up {
			return "", Name{}, fmt.Errorf("%.200q is no subject of a fleet's orders or answers", subject)
		}
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return "", Name{}, fmt.Errorf("the subject %.200q does not name a member, a namespace and a Rollout", subject)
	}
	return parts[0], Name{Namespace: parts[1], Name: strings.ReplaceAll(parts[2], "_", ".")}, nil
}

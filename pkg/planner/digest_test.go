package planner

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	stdhash "hash"
	"os"
	"sluice.dev/sluice/pkg/rollout"
	"strings"
)

var digestFile = flag.String("rollout.digest", "", "the file that TestEveryReachableState writes a digest of all decisions to, one line for each model")

// decisionDigest is a digest of the decisions of a model, in their order. Changes of names or of the layout do not change it.
type decisionDigest struct {
	decisions int
	sum       stdhash.Hash
}

// newDecisionDigest returns nil unless -rollout.digest asks for one.
func newDecisionDigest() *decisionDigest {
	if *digestFile == "" {
		return nil
	}
	return &decisionDigest{sum: sha256.New()}
}

func (s *decisionDigest) add(d rollout.Decision) {
	if s == nil {
		return
	}
	status, err := json.Marshal(d.Status)
	if err != nil {
		panic(err)
	}
	s.decisions++
	fmt.Fprintln(s.sum, string(status), d.Actions, d.CommitFirst, d.WakeAt.UTC(), d.KubeEvents)
}

// writeDigests writes the digest of each model to the file of -rollout.digest.
func writeDigests(models []*model) error {
	if *digestFile == "" {
		return nil
	}
	var b strings.Builder
	for _, m := range models {
		fmt.Fprintf(&b, "%x\t%d decisions\t%s\n", m.digest.sum.Sum(nil), m.digest.decisions, m.name)
	}
	return os.WriteFile(*digestFile, []byte(b.String()), 0o644)
}

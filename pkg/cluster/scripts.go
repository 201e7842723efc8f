package cluster

import (
	"context"
	"errors"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// findScripts gives each gateway object the script of its kind. A script that is there and broken refuses every step with what is
// wrong with it; one that is not there at all is a problem.
func (o *observation) findScripts() {
	s := o.snapshot
	for _, g := range s.gateways {
		group, _, ok := strings.Cut(g.ref.APIVersion, "/")
		if !ok {
			group = ""
		}
		source, err := o.client.opts.Scripts.Find(group, g.ref.Kind, o.scripts)
		var missing *script.NotFoundError
		switch {
		case errors.As(err, &missing):
			o.problem(rollout.Problem{Reason: rollout.HoldScriptMissing, Message: sentence(err)})
			continue
		case err != nil:
			g.run, g.script = func(script.Input) (script.Output, error) { return script.Output{}, err }, err.Error()
			continue
		}
		// The run is bounded by the script's own limits. It must come out the same every time, so no caller's context ends it.
		g.run, g.script = traffic.Lua(context.Background(), source.Program), source.Hash
		s.Scripts = append(s.Scripts, api.ScriptStatus{
			Object: g.ref.Kind + "/" + g.ref.Name, Source: source.Origin, Key: source.Key, Hash: source.Hash,
		})
	}
}

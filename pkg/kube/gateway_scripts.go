package kube

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// findScripts finds the script of each gateway object's kind. A broken script refuses every step and says why. A
// missing script is a problem.
func (o *observation) findScripts() {
	s := o.snapshot
	s.unroutable = nil
	for _, g := range s.gateways {
		g.scriptStatus = nil
		source, err := o.findScript(g.ref)
		var missing *script.NotFoundError
		switch {
		case errors.As(err, &missing) && missing.IsUnsupported():
			s.unroutable = append(s.unroutable, rollout.Problem{Reason: rollout.ReasonScriptMissing, Message: asSentence(err)})
			continue
		case errors.As(err, &missing):
			o.addProblem(rollout.Problem{Reason: rollout.ReasonScriptMissing, Message: asSentence(err)})
			continue
		case err != nil:
			g.renderScript, g.scriptHash = func(script.Input) (script.Output, error) { return script.Output{}, err }, err.Error()
			continue
		}
		// The script's own limits bound the run. Every run must have the same result, so no caller's context ends it.
		g.renderScript, g.scriptHash = traffic.LuaScript(context.Background(), source), source.Hash
		g.scriptStatus = &api.ScriptStatus{Object: g.ref.Kind + "/" + g.ref.Name, Source: source.Origin, Key: source.Key, Hash: source.Hash}
		g.ingressScript, g.childKinds, g.orders, g.backendKinds, g.readKinds, g.needsClass, g.stickyEffect = nil, nil, nil, nil, nil, false, ""
		g.capabilities = source.Capabilities
		if c := source.Capabilities; c != nil {
			g.referenced, g.scriptInputs, g.lag = c.Referenced, c.Tells, time.Duration(c.LagSeconds)*time.Second
			g.childKinds, g.orders, g.backendKinds, g.needsFeatures = c.Creates, c.Orders, c.Backends, len(c.Needs) > 0
			g.readKinds, g.needsClass, g.stickyEffect = c.Reads, len(c.Controllers) > 0, c.Sticky
		}
		if g.ref.Class != "" {
			g.ingressScript, g.childKinds = &source, []script.GroupVersionKind{{APIVersion: g.ref.APIVersion, Kind: g.ref.Kind}}
		}
	}
	slices.SortStableFunc(s.gateways, referencedFirst)
	s.dropMatches()
	for _, g := range s.gateways {
		if g.scriptStatus != nil {
			s.Scripts = append(s.Scripts, *g.scriptStatus)
		}
	}
}

// referencedFirst is the order of the objects in a step. Objects that define backends come before those that refer to
// them; otherwise the given order holds. A restore uses the reverse order, so no rule ever refers to a deleted backend.
func referencedFirst(a, b *gateway) int {
	switch {
	case a.referenced == b.referenced:
		return 0
	case a.referenced:
		return -1
	}
	return 1
}

func (o *observation) findScript(ref rollout.Ref) (script.Source, error) {
	if ref.Class != "" {
		return o.client.opts.Scripts.FindIngress(ref.Class, o.scripts)
	}
	return o.client.opts.Scripts.FindScript(ref.Group(), ref.Kind, o.scripts)
}

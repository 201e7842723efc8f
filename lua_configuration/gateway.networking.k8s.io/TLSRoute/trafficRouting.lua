-- Splits the connections of a TLSRoute between the Services of the stable and of the
-- canary version: see rollout.refs.route.

return rollout.refs.route("TLSRoute")

-- Splits the weighted services of a TraefikService between the Services of the
-- stable and of the canary version.

local weighted = obj.data.spec.weighted
if weighted == nil or rollout.refs.stable(weighted, "services") == nil then
    error("weighted.services of the TraefikService does not name Service " .. obj.stableService
        .. ", and nothing else of it can be shared; name a TraefikService that does, to which mirrors, failovers and routes may lead", 0)
end
rollout.refs.split(weighted, "services")
return obj.data

-- Splits the weighted services of a TraefikService between the Services of the
-- stable and of the canary version.
-- A TraefikService below it that leads to the stable Service as well must be one
-- on which the release routes, too.
--
-- mirror: the stable Service's place takes a TraefikService, made beside this
--   one, which passes requests on to the stable Service and copies them to the
--   canary.

local weighted = obj.data.spec.weighted
if weighted == nil or rollout.refs.stable(weighted, "services") == nil then
    error("weighted.services of the TraefikService does not name Service " .. obj.stableService
        .. ", and nothing else of it can be shared; name a TraefikService that does, to which mirrors, failovers and routes may lead", 0)
end
rollout.traefik.alone()
if obj.canaryWeight >= 0 or not obj.mirror then
    local sticky = weighted.sticky or {}
    rollout.traefik.keepUsers(weighted, sticky.cookie, "give weighted.sticky a cookie with a name of its own, which keeps users with their version")
    rollout.refs.split(weighted, "services")
end
if obj.mirror then
    rollout.traefik.mirror({ weighted })
end
return obj.data

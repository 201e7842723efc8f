-- Routes with objects of the kind KIND (GROUP).
--
-- It is a pure function: obj says what a step of a release asks for, and the
-- table that is returned is the object for that step. obj.data is the object as
-- its owner wrote it, whatever earlier steps made of it.
--
--   obj.canaryWeight                      0 to 100, -1 if the step sets no traffic
--   obj.matches                           list of {path, headers, queryParams}, or nil
--   obj.stableService, obj.canaryService  the two Services to route to
--   rollout.split, rollout.cross, ...     what scripts have in common
--
-- All of it: docs/writing-a-script.md. What this kind can express stands in
-- capabilities.yaml: a step that asks for more is refused before it gets here.
--
--   sluice lua test HOME --watch
--   sluice lua run HOME/trafficRouting.lua --obj FILE --service NAME --weight 20
--
-- To begin with it shares spec.backends, a list of {name, weight}: make it your
-- kind's.

local spec = obj.data.spec

-- The stable Service gives up a share of its weight, and the canary gets it.
local backends, found = {}, false
for _, backend in ipairs(spec.backends or {}) do
    if backend.name == obj.stableService then
        local taken, left = rollout.split({ 100 }, math.max(obj.canaryWeight, 0))
        local stable, canary = rollout.copy(backend), rollout.copy(backend)
        stable.weight = left[1]
        canary.name, canary.weight = obj.canaryService, taken
        table.insert(backends, stable)
        table.insert(backends, canary)
        found = true
    else
        table.insert(backends, backend)
    end
end
if not found then
    error("no backend of the KIND is Service " .. obj.stableService .. "; add one, or correct the service in trafficRoutings", 0)
end

spec.backends = backends
return obj.data

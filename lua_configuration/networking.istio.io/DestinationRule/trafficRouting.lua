-- Gives the DestinationRule a subset "canary" that selects the pods of the new
-- version, for releases whose two versions share one Service.
--
-- The labels of the subset are those that the rollout patches onto the canary
-- pods; without any they are the gray label of full-link releases.
--
-- Where the canary has a Service of its own, no route leads to a subset of it. The
-- rule stays as it is, and the release makes a copy of it for the canary Service.

local spec = obj.data.spec

if obj.canaryService ~= obj.stableService then
    local host = spec.host or ""
    if host ~= obj.stableService and string.sub(host, 1, #obj.stableService + 1) ~= obj.stableService .. "." then
        error("the DestinationRule is about the host " .. host .. " and not about Service " .. obj.stableService
            .. ", so the release does nothing with it; take it out of customNetworkRefs", 0)
    end
    return obj.data
end

local labels = { ["istio.service.tag"] = "gray" }
local patched = obj.patchPodMetadata and obj.patchPodMetadata.labels
if patched and next(patched) ~= nil then
    labels = {}
    for key, value in pairs(patched) do
        labels[key] = value
    end
end

-- A subset called canary that is there already is replaced: Istio refuses two
-- subsets of one name.
local subsets = {}
for _, subset in ipairs(spec.subsets or {}) do
    if subset.name ~= "canary" then
        table.insert(subsets, subset)
    end
end

-- With exactly one other subset it is clear whose traffic policy the new
-- version inherits.
local canary = { name = "canary", labels = labels }
if #subsets == 1 then
    canary.trafficPolicy = subsets[1].trafficPolicy
end

table.insert(subsets, canary)
spec.subsets = subsets
return obj.data

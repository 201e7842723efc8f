-- Splits what a TrafficRoute sends to the stable Service between the Services of
-- the stable and of the canary version.
--
-- matches: the first http rules are copies of those that lead to the stable
--   Service, with the match's terms added and the canary as their destination. What
--   no http rule takes goes by the conf itself, so that it has such a copy, too, at
--   the end.
-- weight: where the stable Service is a destination the canary takes its share.
--
-- A Service is known in the mesh by its name, its namespace, "svc" and a port.

local conf = obj.data.spec.conf or {}
local tag = "kuma.io/service"

-- portOf is what follows a Service's name and namespace in a destination, or nil if
-- it is something else.
local function portOf(destination, service)
    local name, namespace, rest = string.match(destination and destination[tag] or "", "^([^_]+)_([^_]+)(_svc_.+)$")
    if name == service and (obj.namespace == nil or namespace == obj.namespace) then
        return "_" .. namespace .. rest
    end
end

local function isStable(entry)
    return portOf(entry.destination, obj.stableService) ~= nil and entry.weight ~= 0
end

-- entries are the destinations of a rule, whichever way it gives them.
local function entries(rule)
    return rule.split or { { destination = rule.destination, weight = 1 } }
end

local function stableOf(rule)
    for _, entry in ipairs(entries(rule)) do
        if isStable(entry) then
            return entry
        end
    end
end

-- canaryOf is the canary's destination in place of a stable one. Tags of the
-- owner's tell versions apart, and would hold for none of its pods.
local function canaryOf(destination)
    local result = {}
    for name, value in pairs(destination) do
        if string.sub(name, 1, 8) == "kuma.io/" then
            result[name] = value
        end
    end
    result[tag] = obj.canaryService .. portOf(destination, obj.stableService)
    return result
end

local function share(rule)
    local first, kept, stable = stableOf(rule), {}, {}
    for _, entry in ipairs(entries(rule)) do
        if portOf(entry.destination, obj.canaryService) == nil then
            entry = rollout.copy(entry)
            table.insert(kept, entry)
            if isStable(entry) then
                table.insert(stable, entry)
            end
        end
    end
    local added = { destination = canaryOf(first.destination) }
    added.weight = rollout.shares(kept, stable, rollout.percent(), 1)
    table.insert(kept, added)
    rule.destination, rule.split = nil, kept
    if rollout.changes() then
        error("a TrafficRoute changes headers by rule, not by destination; use requestHeaderModifier, or a tag, in steps with matches and no traffic", 0)
    end
end

-- modified is what a rule changes of requests, with the step's changes.
local function modified(modify)
    local change, result = obj.requestHeaderModifier, rollout.copy(modify or {})
    local headers = rollout.copy(result.requestHeaders or {})
    local add, remove = {}, {}
    for _, header in ipairs(headers.add or {}) do
        table.insert(add, header)
    end
    for _, header in ipairs(change.set or {}) do
        table.insert(add, { name = header.name, value = header.value })
    end
    for _, header in ipairs(change.add or {}) do
        table.insert(add, { name = header.name, value = header.value, append = true })
    end
    for _, header in ipairs(headers.remove or {}) do
        table.insert(remove, header)
    end
    for _, name in ipairs(change.remove or {}) do
        table.insert(remove, { name = name })
    end
    headers.add = #add > 0 and add or headers.add
    headers.remove = #remove > 0 and remove or headers.remove
    result.requestHeaders = headers
    return result
end

-- narrowed are the copies of a rule, or of the conf itself, for the step's matches.
local function narrowed(rule)
    local list = {}
    for _, match in ipairs(obj.matches) do
        local combined = rollout.combine(rule.match or {}, rollout.terms(match, "TrafficRoute", "path"), "path")
        if combined then
            local result = rule == conf and {} or rollout.copy(rule)
            result.match, result.split, result.destination = combined, nil, canaryOf(stableOf(rule).destination)
            if rule.modify and rule.modify.path and rule.modify.path.rewritePrefix and combined.path.prefix ~= rule.match.path.prefix then
                error("a rule of the TrafficRoute replaces the prefix " .. rule.match.path.prefix
                    .. ", and can do so for that path alone; drop the path from the step", 0)
            end
            if obj.requestHeaderModifier then
                result.modify = modified(rule.modify)
            end
            table.insert(list, result)
        end
    end
    return list
end

-- The conf is the last rule, for whatever no http rule takes.
local all = {}
for _, rule in ipairs(conf.http or {}) do
    table.insert(all, rule)
end
table.insert(all, conf)
local http = rollout.rules(all, "TrafficRoute", { leads = stableOf, narrowed = narrowed, share = share })
table.remove(http)
conf.http = #http > 0 and http or conf.http
return obj.data

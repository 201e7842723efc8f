-- Splits the rules of a VirtualService between the stable and the canary
-- version.
--
-- matches: before each http rule that routes to the stable Service goes a copy
--   of it per match, with the match's terms added and the canary as its only
--   destination. The last match comes first.
-- weight: in each http, tcp and tls rule that routes to the stable Service the
--   canary takes its share from the stable destinations.
--
-- A step may have both: matching requests go to the canary, the rest is split.
-- Rules with redirect, directResponse or delegate are left alone. A step is refused
-- when a delegate routes to the stable Service as well and the release does not
-- route on it. When both versions share one Service the canary is the subset "canary" of it. Only http
-- rules have names, for releases that keep to some rules.

local spec = obj.data.spec
local stable, canary = obj.stableService, obj.canaryService
local shared = stable == canary
local copy = rollout.copy

-- hostSuffix returns what follows the stable Service's name in host ("" for the
-- short name), or nil if host is another service. In a namespace that is known,
-- "svc.other" is the service of another namespace, and so is the short name in an
-- object of another namespace, from.
local function hostSuffix(host, from)
    if host == stable then
        return (from == nil or from == obj.namespace) and "" or nil
    end
    if type(host) ~= "string" or string.sub(host, 1, #stable + 1) ~= stable .. "." then
        return nil
    end
    local suffix = string.sub(host, #stable + 1)
    local namespace = obj.namespace
    if namespace == nil then
        return suffix
    end
    local own = "." .. namespace
    if suffix == own or suffix == own .. ".svc" or string.sub(suffix, 1, #own + 5) == own .. ".svc." then
        return suffix
    end
    return nil
end

local function isStable(route, from)
    return route.destination ~= nil and hostSuffix(route.destination.host, from) ~= nil
        and not (shared and route.destination.subset == "canary")
end

local function isCanary(route)
    local destination = route.destination
    if destination == nil then
        return false
    end
    if shared then
        return destination.subset == "canary" and hostSuffix(destination.host) ~= nil
    end
    return destination.host == canary
end

-- leads reports whether a rule sends anything to the stable Service. Where some
-- destination has a weight, one without gets nothing. from is the namespace of the
-- rule's object, when it is another one.
local function leads(rule, from)
    if rule.redirect or rule.directResponse or rule.delegate or rule.route == nil then
        return false
    end
    local total, ofStable, found = 0, 0, false
    for _, route in ipairs(rule.route) do
        total = total + (route.weight or 0)
        if isStable(route, from) then
            found, ofStable = true, ofStable + (route.weight or 0)
        end
    end
    return found and (ofStable > 0 or total == 0)
end

local hasStable = leads
if obj.routes then
    rollout.known(spec.http or {}, "VirtualService", leads)
    hasStable = function(rule)
        return rollout.chosen(rule) and leads(rule)
    end
end

-- withHeaders adds the step's request header changes to a rule or destination.
local function withHeaders(target)
    local change = obj.requestHeaderModifier
    if change == nil then
        return
    end
    local headers = copy(target.headers or {})
    headers.request = rollout.headerMaps(change, headers.request)
    target.headers = headers
end

-- canaryRoute makes the canary's destination out of a stable one, so that port
-- and destination headers stay.
local function canaryRoute(route)
    local result = copy(route)
    local destination = copy(route.destination)
    if shared then
        destination.subset = "canary"
    else
        destination.host = canary .. hostSuffix(destination.host)
        destination.subset = nil
    end
    result.destination = destination
    result.weight = nil
    return result
end

-- split gives the canary its share of the weight of the stable destinations of
-- a rule. What other services receive stays; remainders go to stable.
local function split(rule, http)
    local routes, stables, total = {}, {}, 0
    for _, route in ipairs(rule.route) do
        if not isCanary(route) then
            route = copy(route)
            table.insert(routes, route)
            total = total + (route.weight or 0)
            if isStable(route) then
                table.insert(stables, route)
            end
        end
    end

    -- Without weights Istio sends everything to the only destination; several
    -- share alike here.
    if total == 0 then
        total = #routes
        for _, route in ipairs(routes) do
            route.weight = 1
        end
    end
    local percent, ofStable, whole = rollout.percent(), 0, true -- whole: percents can tell all shares
    for _, route in ipairs(routes) do
        whole = whole and (route.weight or 0) * 100 % total == 0
    end
    for _, route in ipairs(stables) do
        ofStable = ofStable + (route.weight or 0)
    end
    local added = canaryRoute(stables[1])
    if whole and ofStable * percent % total == 0 then
        for _, route in ipairs(routes) do
            route.weight = (route.weight or 0) * 100 / total
        end
        added.weight = rollout.take(stables, percent)
    else
        added.weight = rollout.shares(routes, stables, percent, 0)
    end
    if http then
        withHeaders(added)
    end
    table.insert(routes, added)
    rule.route = routes
end

-- splitAll splits each rule that leads to the stable Service, and says how many.
local function splitAll(rules, http)
    local count = 0
    for _, rule in ipairs(rules or {}) do
        if hasStable(rule) then
            split(rule, http)
            count = count + 1
        end
    end
    return count
end

-- canaryRoutes is the list with the canary's destination in a copy of rule.
local function canaryRoutes(rule)
    for _, route in ipairs(rule.route) do
        if isStable(route) then
            return { (canaryRoute(route)) }
        end
    end
end

-- canaryRule copies a stable rule for one match of the step, or returns nil if
-- no request can reach it.
local function canaryRule(rule, match, routes)
    local added = rollout.terms(match, "VirtualService", "uri")
    local matches = {}
    if rule.match == nil or #rule.match == 0 then
        matches = { added }
    else
        for _, own in ipairs(rule.match) do
            local combined = rollout.combine(own, added, "uri")
            if combined then
                table.insert(matches, combined)
            end
        end
    end
    if #matches == 0 then
        return nil
    end
    local result = copy(rule)
    result.match = matches
    result.route = routes
    withHeaders(result)
    return result
end

local function insertMatches()
    local rules, found, inserted = {}, 0, 0
    for _, rule in ipairs(spec.http or {}) do
        if hasStable(rule) then
            found = found + 1
            local routes = canaryRoutes(rule)
            for i = #obj.matches, 1, -1 do
                local added = canaryRule(rule, obj.matches[i], routes)
                if added then
                    inserted = inserted + 1
                    table.insert(rules, added)
                end
            end
        end
        table.insert(rules, rule)
    end
    if found == 0 then
        error("the VirtualService has no http rule that routes to Service " .. stable
            .. ", and only http can be matched; use traffic instead of matches in this step, or add such a rule", 0)
    end
    if inserted == 0 then
        error("the matches of this step exclude the matches of every rule that routes to Service " .. stable
            .. ": no request would reach the canary; change the step's matches", 0)
    end
    spec.http = rules
end

-- mirror has requests by a rule copied to the canary.
local function mirror(rule)
    if rule.mirror then
        error("a rule of the VirtualService copies its requests already; write that as mirrors, or drop mirror from the step", 0)
    end
    local copied = { destination = canaryRoutes(rule)[1].destination, percentage = { value = obj.mirror.percent } }
    local all = {}
    for _, own in ipairs(rule.mirrors or {}) do
        table.insert(all, own)
    end
    table.insert(all, copied)
    rule.mirrors = all
end

local hasMatches = obj.matches ~= nil and next(obj.matches) ~= nil

-- Weights first: the copies for matches are made of the rules as they were.
local original = spec.http
if hasMatches then
    insertMatches()
end
if obj.mirror then
    local mirrored = 0
    for _, rule in ipairs(original or {}) do
        if hasStable(rule) then
            mirror(rule)
            mirrored = mirrored + 1
        end
    end
    if mirrored == 0 then
        error("the VirtualService has no http rule that routes to Service " .. stable .. ", and only http can be copied; drop mirror from the step", 0)
    end
end
if obj.canaryWeight >= 0 or not hasMatches and not obj.mirror then
    local touched = splitAll(original, true) + splitAll(spec.tcp, false) + splitAll(spec.tls, false)
    if touched == 0 then
        error("the VirtualService has no rule that routes to Service " .. stable
            .. "; add one, or correct the service in trafficRoutings", 0)
    end
end

-- A delegate that routes to the stable Service as well must be one on which the
-- release routes, too.
if obj.reads and obj.routes == nil and (hasMatches or obj.mirror or rollout.percent() > 0) then
    for _, rule in ipairs(original or {}) do
        local of = rule.delegate and rollout.named("VirtualService", rule.delegate, obj.namespace)
        for _, inner in ipairs(of and not rollout.routed(of) and (of.spec or {}).http or {}) do
            if leads(inner, of.metadata.namespace) then
                error("the VirtualService delegates to VirtualService " .. of.metadata.name .. ", which routes to Service " .. stable
                    .. " as well, so requests that take that way would all stay with the stable version; " .. rollout.toRoute(of)
                    .. ", or name the rules to share in routes of trafficRoutings", 0)
            end
        end
    end
end
return obj.data

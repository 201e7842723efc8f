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
-- Rules with redirect, directResponse or delegate are left alone. When both
-- versions share one Service the canary is the subset "canary" of it.

local spec = obj.data.spec
local stable, canary = obj.stableService, obj.canaryService
local shared = stable == canary

-- hostSuffix returns what follows the stable Service's name in host ("" for the
-- short name), or nil if host is another service. In a namespace that is known,
-- "svc.other" is the service of another namespace.
local function hostSuffix(host)
    if host == stable then
        return ""
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

local function isStable(route)
    return route.destination ~= nil and hostSuffix(route.destination.host) ~= nil
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

local function hasStable(rule)
    if rule.redirect or rule.directResponse or rule.delegate or rule.route == nil then
        return false
    end
    for _, route in ipairs(rule.route) do
        if isStable(route) then
            return true
        end
    end
    return false
end

-- shallow copies one level: parts that are not changed may be shared.
local function shallow(t)
    local copy = {}
    for key, value in pairs(t or {}) do
        copy[key] = value
    end
    return copy
end

-- withHeaders adds the step's request header changes to a rule or destination.
local function withHeaders(target)
    local change = obj.requestHeaderModifier
    if change == nil then
        return
    end
    local headers = shallow(target.headers)
    local request = shallow(headers.request)
    for _, verb in ipairs({ "set", "add" }) do
        if change[verb] and #change[verb] > 0 then
            request[verb] = shallow(request[verb])
            for _, header in ipairs(change[verb]) do
                request[verb][header.name] = header.value
            end
        end
    end
    if change.remove and #change.remove > 0 then
        local remove = {}
        for _, name in ipairs(request.remove or {}) do
            table.insert(remove, name)
        end
        for _, name in ipairs(change.remove) do
            table.insert(remove, name)
        end
        request.remove = remove
    end
    headers.request = request
    target.headers = headers
end

-- canaryRoute makes the canary's destination out of a stable one, so that port
-- and destination headers stay.
local function canaryRoute(route)
    local copy = shallow(route)
    local destination = shallow(route.destination)
    if shared then
        destination.subset = "canary"
    else
        destination.host = canary .. hostSuffix(destination.host)
        destination.subset = nil
    end
    copy.destination = destination
    copy.weight = nil
    return copy
end

-- split gives the canary its share of the weight of the stable destinations of
-- a rule. What other services receive stays; remainders go to stable.
local function split(rule, http)
    local routes, first, total, stableTotal, stables = {}, nil, 0, 0, 0
    for _, route in ipairs(rule.route) do
        if not isCanary(route) then
            local copy = shallow(route)
            table.insert(routes, copy)
            total = total + (copy.weight or 0)
            if isStable(copy) then
                first = first or copy
                stables = stables + 1
                stableTotal = stableTotal + (copy.weight or 0)
            end
        end
    end

    -- Without weights Istio sends everything to the only destination; several
    -- share alike here.
    local count = #routes
    if total == 0 then
        local share = math.floor(100 / count)
        for _, route in ipairs(routes) do
            route.weight = share
        end
        first.weight = 100 - share * (count - 1)
        total, stableTotal = 100, first.weight + share * (stables - 1)
    elseif total ~= 100 then
        local sum = 0
        stableTotal = 0
        for _, route in ipairs(routes) do
            route.weight = math.floor((route.weight or 0) * 100 / total)
            sum = sum + route.weight
        end
        first.weight = first.weight + 100 - sum
        for _, route in ipairs(routes) do
            if isStable(route) then
                stableTotal = stableTotal + route.weight
            end
        end
    end

    local weight = obj.canaryWeight
    if weight < 0 then
        weight = 0
    end
    local taken = math.floor(stableTotal * weight / 100 + 0.5)
    if taken == 0 and weight > 0 and stableTotal > 0 then
        taken = 1
    end
    local left, kept = stableTotal - taken, 0
    for _, route in ipairs(routes) do
        if isStable(route) then
            route.weight = stableTotal > 0 and math.floor((route.weight or 0) * left / stableTotal) or 0
            kept = kept + route.weight
        elseif route.weight == nil then
            route.weight = 0
        end
    end
    first.weight = first.weight + left - kept

    local added = canaryRoute(first)
    added.weight = taken
    if http then
        withHeaders(added)
    end
    table.insert(routes, added)
    rule.route = routes
end

-- splitAll splits the rules that hold for any request; if each stable rule has
-- a match of the user's, it splits those.
local function splitAll(rules, http)
    local plain, matched = {}, {}
    for _, rule in ipairs(rules or {}) do
        if hasStable(rule) then
            table.insert(rule.match and #rule.match > 0 and matched or plain, rule)
        end
    end
    local chosen = #plain > 0 and plain or matched
    for _, rule in ipairs(chosen) do
        split(rule, http)
    end
    return #chosen
end

local parts = { "headers", "queryParams" }

local function matcher(kind, value)
    if kind == "Exact" then
        return { exact = value }
    elseif kind == "RegularExpression" then
        return { regex = value }
    elseif kind == "PathPrefix" or kind == "Prefix" then
        return { prefix = value }
    end
    error("VirtualService does not know the match type " .. tostring(kind)
        .. "; use Exact or RegularExpression (paths also PathPrefix)", 0)
end

-- terms turns a match of the step into a match of Istio.
local function terms(match)
    local result = {}
    if match.path then
        result.uri = matcher(match.path.type or "PathPrefix", match.path.value or "/")
    end
    for _, part in ipairs(parts) do
        if match[part] and #match[part] > 0 then
            result[part] = {}
            for _, term in ipairs(match[part]) do
                result[part][term.name] = matcher(term.type or "Exact", term.value)
            end
        end
    end
    if next(result) == nil then
        error("a match of this step has neither path nor headers nor queryParams; give it one of them", 0)
    end
    return result
end

local function startsWith(text, prefix)
    return string.sub(text, 1, #prefix) == prefix
end

-- both returns a matcher for what a and b match together, or nil if nothing is.
local function both(a, b, what)
    if a.exact and b.exact then
        return a.exact == b.exact and a or nil
    elseif a.exact and b.prefix then
        return startsWith(a.exact, b.prefix) and a or nil
    elseif a.prefix and b.exact then
        return startsWith(b.exact, a.prefix) and b or nil
    elseif a.prefix and b.prefix then
        if startsWith(a.prefix, b.prefix) then
            return a
        end
        return startsWith(b.prefix, a.prefix) and b or nil
    elseif a.regex and a.regex == b.regex then
        return a
    end
    error("cannot combine two conditions on " .. what .. " when one is a regular expression;"
        .. " drop one of them from the step or from the VirtualService", 0)
end

-- combine ANDs a match of the user's rule with the terms of the step, or
-- returns nil if no request fulfils both.
local function combine(own, added)
    local result = shallow(own)
    if added.uri then
        result.uri = own.uri and both(own.uri, added.uri, "the path") or not own.uri and added.uri or nil
        if result.uri == nil then
            return nil
        end
    end
    for _, part in ipairs(parts) do
        if added[part] then
            local members = shallow(own[part])
            for name, condition in pairs(added[part]) do
                if members[name] then
                    condition = both(members[name], condition, part .. " " .. name)
                    if condition == nil then
                        return nil
                    end
                end
                members[name] = condition
            end
            result[part] = members
        end
    end
    return result
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
    local added = terms(match)
    local matches = {}
    if rule.match == nil or #rule.match == 0 then
        table.insert(matches, added)
    else
        for _, own in ipairs(rule.match) do
            local combined = combine(own, added)
            if combined then
                table.insert(matches, combined)
            end
        end
    end
    if #matches == 0 then
        return nil
    end
    local copy = shallow(rule)
    copy.match = matches
    copy.route = routes
    withHeaders(copy)
    return copy
end

local function insertMatches()
    local rules, found, inserted = {}, 0, 0
    for _, rule in ipairs(spec.http or {}) do
        if hasStable(rule) then
            found = found + 1
            local routes = canaryRoutes(rule)
            for i = #obj.matches, 1, -1 do
                local copy = canaryRule(rule, obj.matches[i], routes)
                if copy then
                    inserted = inserted + 1
                    table.insert(rules, copy)
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

local hasMatches = obj.matches ~= nil and next(obj.matches) ~= nil

-- Weights first: the copies for matches are made of the rules as they were.
local original = spec.http
if hasMatches then
    insertMatches()
end
if not hasMatches or obj.canaryWeight >= 0 then
    local touched = splitAll(original, true) + splitAll(spec.tcp, false) + splitAll(spec.tls, false)
    if touched == 0 then
        error("the VirtualService has no rule that routes to Service " .. stable
            .. "; add one, or correct the service in trafficRoutings", 0)
    end
end
return obj.data

-- The global rollout of every script: the functions that scripts for gateways
-- share. Lines of three dashes separate its parts. The engine runs a part when a
-- script first names something in it, because most scripts need little and each
-- call makes its parts again. Each part gets two variables: rollout and copy. copy
-- is the one function that Lua cannot express. It keeps the JSON details of a
-- table.

---

-- clone copies a value and all its members. It shares empty tables: these are
-- marked as lists or objects, and a new table would have no mark.
function rollout.clone(value)
    if type(value) ~= "table" or next(value) == nil then
        return value
    end
    local result = copy(value)
    for key, member in pairs(result) do
        if type(member) == "table" then
            result[key] = rollout.clone(member)
        end
    end
    return result
end

---

-- split takes percent (0 to 100) of the sum of the parts. It returns the amount
-- taken and the rest of each part, as whole numbers in the old proportion. The
-- first part keeps the remainder of rounding. If the sum is 2 or more, a share
-- above 0 is never rounded to nothing, and a share below 100 never to all.
function rollout.split(parts, percent)
    local total = 0
    for _, part in ipairs(parts) do
        total = total + part
    end
    local taken = math.floor(total * percent / 100 + 0.5)
    if taken == 0 and percent > 0 and total > 0 then
        taken = 1
    elseif taken == total and percent < 100 and total > 1 then
        taken = total - 1
    end
    local left, kept, rest = total - taken, 0, {}
    for i, part in ipairs(parts) do
        rest[i] = total > 0 and math.floor(part * left / total) or 0
        kept = kept + rest[i]
    end
    if #rest > 0 then
        rest[1] = rest[1] + left - kept
    end
    return taken, rest
end

---

-- percent is the canary's share, 0 in a step without one.
function rollout.percent()
    return obj.fineWeight or math.max(obj.canaryWeight, 0)
end

-- finest returns the number of parts of the whole for which percent is a whole
-- number of parts: 100, or 100 times a power of ten.
function rollout.finest(percent)
    local whole = 100
    while math.floor(percent * whole * 10 + 0.5) % 1000 ~= 0 and whole < 100000 do
        whole = whole * 10
    end
    return whole
end

---

-- largest is a weight that every kind accepts.
local largest = 1000000

-- take splits the weights of backends, which all have one. It writes the rest of
-- each weight, and returns the amount taken.
function rollout.take(backends, percent)
    local parts = {}
    for i, backend in ipairs(backends) do
        parts[i] = backend.weight
    end
    local taken, rest = rollout.split(parts, percent)
    for i, backend in ipairs(backends) do
        backend.weight = rest[i]
    end
    return taken
end

-- shares gives the canary percent of the traffic of a rule's stable backends, and
-- returns its weight. all are the backends of the rule without the canary. stable
-- are the stable backends with traffic. Both hold copies, whose weights are
-- written. absent is the value of an absent weight.
--
-- Weights are relative. If all backends are stable, they get percents, or smaller
-- parts if the share needs them. Otherwise all weights are multiplied, so that
-- whole numbers can express the share.
function rollout.shares(all, stable, percent, absent)
    local total, whole = 0, rollout.finest(percent)
    for _, backend in ipairs(stable) do
        total = total + (backend.weight or absent)
    end
    if #stable == #all then
        local said = 0
        for _, backend in ipairs(stable) do
            backend.weight = math.floor(whole * (backend.weight or absent) / total)
            said = said + backend.weight
        end
        stable[1].weight = stable[1].weight + whole - said
    else
        local highest = math.max(1, total) -- the canary may get the traffic of all stable backends together
        for _, backend in ipairs(all) do
            highest = math.max(highest, backend.weight or absent)
        end
        local factor = math.max(1, math.min(whole, math.floor(largest / highest)))
        for _, backend in ipairs(all) do
            backend.weight = (backend.weight or absent) * factor
        end
        if total * factor < 2 and percent > 0 and percent < 100 then
            error("a rule gives Service " .. obj.stableService .. " the weight " .. total .. " beside one of " .. highest
                .. ", which leaves no room for a share of it; make the weights of that rule smaller", 0)
        end
    end
    return rollout.take(stable, percent)
end

---

-- cross combines each of the owner's matches with each of the step's: both(own,
-- added) returns the match that fulfils both, or nil if no request does. An owner
-- without matches accepts any request.
function rollout.cross(own, added, both)
    if own == nil or #own == 0 then
        own = { {} }
    end
    local result = {}
    for _, mine in ipairs(own) do
        for _, theirs in ipairs(added) do
            local combined = both(mine, theirs)
            if combined then
                table.insert(result, combined)
            end
        end
    end
    return result
end

---

-- quote returns a regular expression (RE2 or PCRE) that matches exactly the text.
function rollout.quote(text)
    return (string.gsub(text, "[%^%$%.%|%?%*%+%(%)%[%]%{%}\\]", "\\%0"))
end

-- under reports whether a path equals a prefix, or lies below it, by whole
-- segments.
function rollout.under(path, prefix)
    prefix = string.gsub(prefix, "/+$", "")
    return path == prefix or path == prefix .. "/" or string.sub(path, 1, #prefix + 1) == prefix .. "/"
end

---

-- conditions joins two lists of {type, name, value}, all of which must hold. It
-- returns nil if no request fulfils them. key(condition) is equal for conditions
-- on the same header or parameter; what names its sort in messages.
function rollout.conditions(own, added, what, key)
    local list, known = {}, {}
    for _, condition in ipairs(own or {}) do
        table.insert(list, condition)
        known[key(condition)] = condition
    end
    for _, condition in ipairs(added or {}) do
        local mine = known[key(condition)]
        local how, mineHow = condition.type or "Exact", mine and mine.type or "Exact"
        if mine == nil then
            table.insert(list, condition)
        elseif mine.value == condition.value and how == mineHow then
            -- it is already in the list
        elseif how == "Exact" and mineHow == "Exact" then
            return nil
        else
            error("cannot combine two conditions on the " .. what .. " " .. condition.name
                .. " when one is a regular expression; drop one of them from the step or from the object", 0)
        end
    end
    return list
end

-- sameHeader and sameParam are keys for conditions: names of query parameters are
-- case-sensitive, and names of headers are not.
function rollout.sameHeader(header)
    return string.lower(header.name)
end

function rollout.sameParam(param)
    return param.name
end

---

-- headers adds a step's requestHeaderModifier to an existing one. Both are {set,
-- add, remove} with lists of {name, value} as in the Gateway API. It returns the
-- result. Names of headers are case-insensitive.
function rollout.headers(change, before)
    local result = before and copy(before) or {}
    for _, verb in ipairs({ "set", "add" }) do
        if change[verb] and #change[verb] > 0 then
            local changed = {}
            for _, header in ipairs(change[verb]) do
                changed[string.lower(header.name)] = true
            end
            local list = {}
            for _, header in ipairs(result[verb] or {}) do
                if not changed[string.lower(header.name)] then
                    table.insert(list, header)
                end
            end
            for _, header in ipairs(change[verb]) do
                table.insert(list, header)
            end
            result[verb] = list
        end
    end
    if change.remove and #change.remove > 0 then
        local list = {}
        for _, name in ipairs(result.remove or {}) do
            table.insert(list, name)
        end
        for _, name in ipairs(change.remove) do
            table.insert(list, name)
        end
        result.remove = list
    end
    return result
end

-- headerMaps does the same for kinds that have {set, add} as maps of values by
-- name.
function rollout.headerMaps(change, before)
    local result = copy(before or {})
    for _, verb in ipairs({ "set", "add" }) do
        if change[verb] and #change[verb] > 0 then
            result[verb] = copy(result[verb] or {})
            for _, header in ipairs(change[verb]) do
                result[verb][header.name] = header.value
            end
        end
    end
    result.remove = rollout.headers({ remove = change.remove }, { remove = result.remove }).remove
    return result
end

---

-- whole makes a pattern match whole values only, for gateways that search for it
-- anywhere.
function rollout.whole(pattern)
    return "^(?:" .. pattern .. ")$"
end

-- prefixed returns a regular expression for the paths under a prefix, by whole
-- segments.
function rollout.prefixed(prefix)
    local path = string.gsub(prefix, "/+$", "")
    return path == "" and "^/" or "^" .. rollout.quote(path) .. "(?:/|$)"
end

---

-- matched reports whether the step has matches.
function rollout.matched()
    return obj.matches ~= nil and next(obj.matches) ~= nil
end

-- chosen reports whether the release is limited to rules with certain names, and
-- this rule has one of them.
function rollout.chosen(rule)
    for _, name in ipairs(obj.routes) do
        if rule.name == name then
            return true
        end
    end
    return false
end

-- named returns the object of obj.reads that a reference names, {name, namespace},
-- or nil. namespace replaces an absent namespace of the reference.
function rollout.named(kind, ref, namespace)
    if (ref.namespace or "") ~= "" then
        namespace = ref.namespace
    end
    for _, of in ipairs(obj.reads or {}) do
        if of.kind == kind and of.metadata.name == ref.name and of.metadata.namespace == namespace then
            return of
        end
    end
end

-- routed reports whether the release also routes on an object of obj.reads itself,
-- through the stable Service of this call.
function rollout.routed(of)
    for _, service in ipairs(of.services or {}) do
        if service == obj.stableService then
            return true
        end
    end
    return false
end

-- toRoute tells users how to make the release route on an object of obj.reads
-- itself. A release can name only objects of its own namespace.
function rollout.toRoute(of)
    local what = of.kind .. " " .. of.metadata.name
    if of.metadata.namespace == obj.namespace then
        return "name " .. what .. " in customNetworkRefs of trafficRoutings as well"
    end
    return "move " .. what .. " from namespace " .. of.metadata.namespace .. " to namespace " .. obj.namespace
        .. " and name it in customNetworkRefs of trafficRoutings as well"
end

-- known ends the script if a rule that the release names does not exist, or does
-- not lead to the stable Service. leads(rule) reports the latter.
function rollout.known(rules, kind, leads)
    for _, name in ipairs(obj.routes) do
        local found = false
        for _, rule in ipairs(rules) do
            found = found or rule.name == name and leads(rule)
        end
        if not found then
            error("the " .. kind .. " has no rule with the name " .. name .. " that leads to Service " .. obj.stableService
                .. "; correct routes in trafficRoutings, or name that rule so", 0)
        end
    end
end

---

-- changes returns the header changes for a share of the requests. In a step with
-- matches, the step's changes concern only the matching requests, and the tag all.
function rollout.changes()
    if rollout.matched() then
        return obj.tag and { set = { { name = obj.tag.header, value = obj.tag.value } } }
    end
    return obj.requestHeaderModifier
end

---

-- rules runs the steps of a script for a kind with a list of rules, and returns
-- the list for the step. how has the parts that differ between kinds:
--
--   leads(rule) reports whether it leads to the stable Service
--   narrowed(rule) returns copies for the requests that the step matches, which lead
--     to the canary; they come before the rule
--   share(rule) gives the canary its share in the rule itself
--   mirror(rule) copies requests of the rule to the canary
--
-- A step may have both: matching requests go to the canary, the rest is split.
function rollout.rules(rules, kind, how)
    local result, found, inserted = {}, 0, 0
    local leads = how.leads
    if obj.routes then
        rollout.known(rules, kind, leads)
        leads = function(rule)
            return rollout.chosen(rule) and how.leads(rule)
        end
    end
    for _, rule in ipairs(rules) do
        if leads(rule) then
            found = found + 1
            for _, copied in ipairs(rollout.matched() and how.narrowed(rule) or {}) do
                inserted = inserted + 1
                table.insert(result, copied)
            end
        end
        table.insert(result, rule)
    end
    if rollout.matched() and inserted == 0 then
        error("no request would reach the canary: no rule of the " .. kind .. " leads to Service " .. obj.stableService
            .. " and may have the step's matches; change them, or correct the service in trafficRoutings", 0)
    elseif found == 0 then
        error("no rule of the " .. kind .. " leads to Service " .. obj.stableService
            .. "; add one, or correct the service in trafficRoutings", 0)
    end
    local shares = obj.canaryWeight >= 0 or not rollout.matched() and not obj.mirror
    for _, rule in ipairs(rules) do
        if leads(rule) then
            if obj.mirror then
                how.mirror(rule)
            end
            if shares then
                how.share(rule)
            end
        end
    end
    return result
end

---

-- terms and combine handle conditions in the form of meshes, {exact}, {prefix} or
-- {regex}. path is the name of the path condition in a kind.
local parts = { "headers", "queryParams" }

local function matcher(kind, how, value)
    if how == "Exact" then
        return { exact = value }
    elseif how == "RegularExpression" then
        return { regex = value }
    elseif how == "PathPrefix" or how == "Prefix" then
        return { prefix = value }
    end
    error(kind .. " does not know the match type " .. tostring(how)
        .. "; use Exact or RegularExpression (paths also PathPrefix)", 0)
end

-- members returns conditions by name, nil without conditions.
local function members(kind, list)
    if list == nil or #list == 0 then
        return nil
    end
    local result = { [list[1].name] = true } -- an empty table would have room for many
    for _, term in ipairs(list) do
        result[term.name] = matcher(kind, term.type or "Exact", term.value)
    end
    return result
end

-- terms converts a match of the step into a match of the kind.
function rollout.terms(match, kind, path)
    local result = { headers = members(kind, match.headers), queryParams = members(kind, match.queryParams) }
    if match.path then
        result[path] = matcher(kind, match.path.type or "PathPrefix", match.path.value or "/")
    end
    if next(result) == nil then
        error("a match of this step has neither path nor headers nor queryParams; give it one of them", 0)
    end
    return result
end

local function startsWith(text, prefix)
    return string.sub(text, 1, #prefix) == prefix
end

-- both returns a matcher for all that a and b both match, or nil if they exclude
-- each other.
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
        .. " drop one of them from the step or from the object", 0)
end

-- combine returns a match of an owner's rule with terms added, or nil if no
-- request fulfils both.
function rollout.combine(own, added, path)
    local result = copy(own)
    if added[path] then
        result[path] = own[path] and both(own[path], added[path], "the path") or not own[path] and added[path] or nil
        if result[path] == nil then
            return nil
        end
    end
    for _, part in ipairs(parts) do
        if added[part] and not own[part] then
            result[part] = added[part]
        elseif added[part] then
            local members = copy(own[part])
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

---

-- refs handles backends in the form of the Gateway API, {kind, name, namespace,
-- weight}, where an absent weight means 1. list is the field of a rule that holds
-- them; the default is backendRefs.
local refs = { is = false, stable = false, canary = false, split = false, route = false }
rollout.refs = refs

local pools = { ["inference.networking.k8s.io"] = true, ["inference.networking.x-k8s.io"] = true }

-- is reports whether a backend is a Service of the object's namespace, or a pool
-- of model servers of that name.
function refs.is(ref, service)
    local kind, group = ref.kind or "Service", ref.group or ""
    return ref.name == service and (kind == "Service" and group == "" or kind == "InferencePool" and pools[group] == true)
        and (ref.namespace == nil or ref.namespace == obj.namespace)
end

-- stable returns the first backend of a rule that is the stable Service and gets
-- traffic, or nil.
function refs.stable(rule, list)
    for _, ref in ipairs(rule[list or "backendRefs"] or {}) do
        if refs.is(ref, obj.stableService) and ref.weight ~= 0 then
            return ref
        end
    end
end

-- canary returns a copy of a backendRef that names the canary Service.
function refs.canary(ref)
    local result = copy(ref)
    result.name = obj.canaryService
    result.weight = nil
    return result
end

-- split gives the canary its share of the stable Service's traffic in a rule, and
-- returns its backend. Other backends keep their traffic.
function refs.split(rule, list)
    list = list or "backendRefs"
    local kept, stable = {}, {}
    local added = refs.canary(refs.stable(rule, list))
    for _, ref in ipairs(rule[list]) do
        if not refs.is(ref, obj.canaryService) then
            ref = copy(ref)
            table.insert(kept, ref)
            if refs.is(ref, obj.stableService) and ref.weight ~= 0 then
                table.insert(stable, ref)
            end
        end
    end
    added.weight = rollout.shares(kept, stable, rollout.percent(), 1)
    table.insert(kept, added)
    rule[list] = kept
    return added
end

-- modify adds header changes to the filters of a rule or of a backendRef, which
-- may have one filter of that type.
local function modify(target, change)
    if change == nil then
        return
    end
    local filters, found = {}, false
    for _, filter in ipairs(target.filters or {}) do
        if filter.type == "RequestHeaderModifier" then
            filter = copy(filter)
            filter.requestHeaderModifier = rollout.headers(change, filter.requestHeaderModifier)
            found = true
        end
        table.insert(filters, filter)
    end
    if not found then
        table.insert(filters, { type = "RequestHeaderModifier", requestHeaderModifier = rollout.headers(change) })
    end
    target.filters = filters
end

-- narrowed returns a copy of a rule for the step's matches, unless no request
-- fulfils both the step's matches and the rule's.
local function narrowed(rule, both)
    local matches = rollout.cross(rule.matches, obj.matches, both)
    if #matches == 0 then
        return {}
    end
    local result = copy(rule)
    result.name = nil -- names of rules are unique
    result.matches = matches
    result.backendRefs = { (refs.canary(refs.stable(rule))) }
    modify(result, obj.requestHeaderModifier)
    return { result }
end

-- mirror adds a filter that copies requests to the canary.
local function mirror(rule)
    local to = refs.canary(refs.stable(rule))
    to.filters = nil
    local copied = { backendRef = to }
    local percent = obj.mirror.percent
    if percent ~= math.floor(percent) then
        copied.fraction = { numerator = math.floor(percent * 1000 + 0.5), denominator = 100000 }
    elseif percent < 100 then
        copied.percent = percent
    end
    local filters = {}
    for _, filter in ipairs(rule.filters or {}) do
        table.insert(filters, filter)
    end
    table.insert(filters, { type = "RequestMirror", requestMirror = copied })
    rule.filters = filters
end

-- fits ends the script if the object would have more rules or matches than the
-- schema of the kind allows.
local function fits(rules, kind, limits)
    local total = 0
    for _, rule in ipairs(rules) do
        local count = math.max(1, #(rule.matches or {}))
        total = total + count
        if count > limits.matchesOfARule then
            error("a rule of the " .. kind .. " would have " .. count .. " matches, and may have " .. limits.matchesOfARule
                .. "; use fewer matches in the step", 0)
        end
    end
    if #rules > limits.rules or total > limits.matches then
        error("the " .. kind .. " would have " .. #rules .. " rules with " .. total .. " matches, and may have " .. limits.rules
            .. " and " .. limits.matches .. "; use fewer matches in the step, or split the " .. kind, 0)
    end
end

-- route is a whole script for a kind of the Gateway API. both(own, added) combines
-- a match of a rule with one of the step, nil if no request has both; limits are
-- the most {rules, matchesOfARule, matches} that the kind allows.
--
-- matches: the script copies each rule that leads to the stable Service, and puts
-- the
--   copy before the rule. The canary is the only backend of the copy, and its
--   matches combine the rule's own and the step's. A gateway uses the most
--   specific match of all rules, so the rule would win over a copy without
--   the rule's own conditions.
-- weight: in each rule that leads to the stable Service the canary takes its
--   share of that Service's traffic.
--
-- A step may have both: matching requests go to the canary, the rest is split.
function refs.route(kind, both, limits)
    local spec = obj.data.spec
    spec.rules = rollout.rules(spec.rules or {}, kind, {
        leads = refs.stable,
        narrowed = function(rule)
            return narrowed(rule, both)
        end,
        share = function(rule)
            modify(refs.split(rule), rollout.changes())
        end,
        mirror = mirror,
    })
    if rollout.matched() then
        fits(spec.rules, kind, limits)
    end
    return obj.data
end
---

-- traefik is for kinds of Traefik, which copies requests and changes headers with
-- separate objects. The functions add these to the objects that the script
-- creates.
local traefik = { mirror = false, changeHeaders = false, alone = false }
rollout.traefik = traefik

local version = "traefik.io/v1alpha1"

-- make adds an object, once, and returns its name. The name begins with the name
-- of the canary Service and a dot, which marks it as the canary's. The rest
-- distinguishes objects for different gateway objects, Services and contents.
local function make(kind, of, spec)
    local told = table.concat({ kind, obj.object.kind, obj.object.metadata.name, obj.stableService, json.encode(of) }, "\n")
    local hash = 5381
    for i = 1, #told do
        hash = (hash * 33 + string.byte(told, i)) % 4294967296
    end
    local begins = string.gsub(string.sub(obj.canaryService, 1, 54), "[-.]+$", "")
    local name = begins .. string.format(".%08x", hash)
    local made = obj.data.create or {}
    for _, object in ipairs(made) do
        if object.kind == kind and object.metadata.name == name then
            return name
        end
    end
    table.insert(made, { apiVersion = version, kind = kind, metadata = { name = name }, spec = spec })
    obj.data.create = made
    return name
end

-- keepUsers ends the script if Traefik would send users with a sticky cookie of
-- the stable Service to another version with each request. level is the cookie
-- with which the target keeps users on one of its services, nil if it has none.
function traefik.keepUsers(target, level, advice)
    for _, service in ipairs(target.services or {}) do
        local cookie = rollout.refs.is(service, obj.stableService) and service.sticky and service.sticky.cookie
        if cookie and (level == nil or (level.name or "") ~= "" and level.name == cookie.name) then
            error("Service " .. obj.stableService .. " has a sticky cookie, and its users would lose their sessions in a step with a share: "
                .. "Traefik would send each request to either version, and the cookie names a pod of one; " .. advice, 0)
        end
    end
end

-- targets returns all references to Services and TraefikServices in the spec of an
-- IngressRoute or a TraefikService, except those that get no traffic.
local function targets(spec)
    local all = {}
    local function add(list)
        for _, ref in ipairs(list or {}) do
            if ref.weight ~= 0 and ref.percent ~= 0 then
                table.insert(all, ref)
            end
        end
    end
    for _, route in ipairs(spec.routes or {}) do
        add(route.services)
    end
    add((spec.weighted or {}).services)
    add((spec.highestRandomWeight or {}).services)
    add({ spec.mirroring })
    add((spec.mirroring or {}).mirrors)
    local failover = spec.failover or {}
    add({ failover.service })
    add({ failover.fallback })
    return all
end

-- beside returns the first TraefikService that a spec leads to, directly or
-- through others, and that leads to the stable Service while the release does not
-- route on it. namespace is the namespace of the object with the spec.
local function beside(spec, namespace, seen)
    for _, ref in ipairs(targets(spec)) do
        local of = ref.kind == "TraefikService" and rollout.named("TraefikService", ref, namespace)
        if of and not seen[of] and not rollout.routed(of) then
            seen[of] = true
            local there = of.metadata.namespace
            for _, target in ipairs(targets(of.spec or {})) do
                if target.name == obj.stableService and (target.kind or "Service") == "Service" and (target.namespace or there) == obj.namespace then
                    return of
                end
            end
            local below = beside(of.spec or {}, there, seen)
            if below then
                return below
            end
        end
    end
end

-- alone ends the script, in a step with a share or copies, if the object also
-- leads to the stable Service through a TraefikService on which the release does
-- not route. All requests on that path would stay with the stable version.
function traefik.alone()
    local of = (rollout.percent() > 0 or obj.mirror) and beside(obj.data.spec, obj.namespace, {})
    if of then
        local shares = rollout.refs.stable(of.spec.weighted or {}, "services")
        error("the " .. obj.object.kind .. " leads to Service " .. obj.stableService .. " itself, and by TraefikService " .. of.metadata.name
            .. " as well, so requests that take that way would all stay with the stable version; "
            .. (shares and rollout.toRoute(of) or "lead it to a TraefikService that has the Service in weighted.services, and name that one in customNetworkRefs of trafficRoutings as well"), 0)
    end
end

-- mirror replaces the stable Service, in services of each target, by a
-- TraefikService that copies requests to the canary.
function traefik.mirror(targets)
    local refs = rollout.refs
    for _, target in ipairs(targets) do
        local services = {}
        for i, ref in ipairs(target.services or {}) do
            if refs.is(ref, obj.stableService) and ref.weight ~= 0 then
                local to, mirror = copy(ref), refs.canary(ref)
                to.weight = nil
                mirror.percent = obj.mirror.percent
                local passes = copy(to)
                passes.mirrors = { mirror }
                ref = { kind = "TraefikService", name = make("TraefikService", to, { mirroring = passes }), weight = ref.weight }
            end
            services[i] = ref
        end
        if target.services then
            target.services = services
        end
    end
end

-- changeHeaders makes a route change the headers of its requests.
function traefik.changeHeaders(route, change)
    local headers, known = {}, {}
    local function put(name, value)
        local lower = string.lower(name)
        if known[lower] then
            error("the step changes the header " .. name .. " twice, and Traefik takes one change of each; keep one", 0)
        end
        known[lower], headers[name] = true, value
    end
    for _, header in ipairs(change.set or {}) do
        if header.value == nil or header.value == "" then
            error("the step sets the header " .. header.name .. " to nothing, which Traefik takes for removing it; give it a value, or remove it", 0)
        end
        put(header.name, header.value)
    end
    for _, name in ipairs(change.remove or {}) do
        put(name, "") -- an empty value removes the header
    end
    if next(headers) == nil then
        return
    end
    local middlewares = {}
    for i, own in ipairs(route.middlewares or {}) do
        middlewares[i] = own
    end
    table.insert(middlewares, { name = make("Middleware", headers, { headers = { customRequestHeaders = headers } }) })
    route.middlewares = middlewares
end

---

-- ingress is for scripts of Ingress classes whose controllers accept canary
-- Ingresses with annotations like those of ingress-nginx.
local ingress = {}
rollout.ingress = ingress

-- begin returns the annotations of a canary Ingress without conditions. It drops
-- the Ingress's own annotations of this sort.
function ingress.begin(...)
    local annotations = copy(obj.annotations or {})
    for _, prefix in ipairs({ ... }) do
        for name in pairs(obj.annotations or {}) do
            if string.sub(name, 1, #prefix + 6) == prefix .. "canary" then
                annotations[name] = nil
            end
        end
    end
    annotations[(...) .. "canary"] = "true"
    return annotations
end

local function condition(annotations, name, of)
    annotations[name] = of.name
    annotations[name .. (of.type == "RegularExpression" and "-pattern" or "-value")] = of.value
end

-- match returns the annotations for one match of a step. Such a controller accepts
-- one condition: a header, a cookie, or, if queries is given, a query parameter.
-- The cookie is a header with the name canary-by-cookie, whose value is the name
-- of the cookie. queries is the prefix of the annotations for a query parameter.
function ingress.match(prefix, match, queries)
    local annotations = ingress.begin(prefix, queries)
    local header, param = match.headers and match.headers[1], match.queryParams and match.queryParams[1]
    if header and header.name == "canary-by-cookie" then
        annotations[prefix .. "canary-by-cookie"] = header.value
    elseif header then
        condition(annotations, prefix .. "canary-by-header", header)
    elseif param and queries then
        condition(annotations, queries .. "canary-by-query", param)
    else
        error("a canary Ingress takes a header, and the match has none", 0)
    end
    return annotations
end

-- Directives of nginx that send a request to a backend.
local passes = {
    proxy_pass = true, grpc_pass = true, fastcgi_pass = true, uwsgi_pass = true, scgi_pass = true, memcached_pass = true,
}
-- Variables that choose the backend of a request in ingress-nginx.
local variables = { ["$proxy_upstream_name"] = true, ["$proxy_alternative_upstream_name"] = true }

-- word reads the word at a position of an nginx configuration: in quotes, or up to
-- the next space, semicolon or brace. It returns the word and the position after
-- it.
local function word(text, at)
    local quote = string.match(text, "^[\"']", at)
    if quote == nil then
        local found = string.match(text, "^[^%s;{}][^%s;{]*", at)
        return found, at + #found
    end
    local to = at + 1
    while to <= #text and string.sub(text, to, to) ~= quote do
        to = to + (string.sub(text, to, to) == "\\" and 2 or 1)
    end
    return string.sub(text, at + 1, to - 1), to + 1
end

-- passing returns the first directive of a snippet that sets the backend of
-- requests, or nil. A directive begins a statement; arguments and comments do not
-- count.
local function passing(text)
    local first, at = nil, 1
    while true do
        at = string.find(text, "%S", at)
        if at == nil then
            return nil
        end
        local char = string.sub(text, at, at)
        if char == "#" then
            at = string.find(text, "\n", at, true) or #text + 1
        elseif char == ";" or char == "{" or char == "}" then
            first, at = nil, at + 1
        else
            local found
            found, at = word(text, at)
            if first == nil and passes[found] then
                return found
            elseif first == "set" and variables[found] then
                return "set " .. found
            end
            first = first == nil and found or "" -- set names its variable first
        end
    end
end

-- decided ends the script with an error if an annotation of the owner sets the
-- backend of requests. A controller obeys such an annotation, not a canary
-- Ingress.
function ingress.decided(prefix)
    local own = obj.annotations or {}
    if own[prefix .. "canary"] == "true" then
        error("it is a canary Ingress itself; name the Ingress beside which it stands", 0)
    end
    for _, snippet in ipairs({ "configuration-snippet", "server-snippet" }) do
        local name = prefix .. snippet
        local directive = passing(own[name] or "")
        if directive then
            error("its annotation " .. name .. " says where requests go (" .. directive .. "), and the canary would not get its share; take that out of it", 0)
        end
    end
    if own["higress.io/destination"] then
        error("its annotation higress.io/destination says where requests go, and the canary would not get its share; remove it", 0)
    end
end

-- canary is a whole script for such a class: the step's match, its weight, or
-- both.
function ingress.canary(prefix, queries)
    local matches = obj.matches or {}
    ingress.decided(prefix)
    if #matches > 2 then
        error("a canary Ingress takes a header and a cookie, and the step has " .. #matches .. " matches", 0)
    end
    local annotations = matches[1] and ingress.match(prefix, matches[1], queries) or ingress.begin(prefix, queries)
    for name, value in pairs(matches[2] and ingress.match(prefix, matches[2], queries) or {}) do
        annotations[name] = value
    end
    if obj.fineWeight then
        local thousandths = math.floor(obj.fineWeight * 1000 + 0.5)
        annotations[prefix .. "canary-weight"], annotations[prefix .. "canary-weight-total"] = tostring(thousandths), "100000"
    elseif obj.weight ~= "-1" then
        annotations[prefix .. "canary-weight"] = obj.weight
    end
    return annotations
end

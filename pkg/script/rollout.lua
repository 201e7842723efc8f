-- The global rollout of every script: what scripts for gateways have in common.
-- It has parts, between lines of three dashes, and a part is run when a script
-- first names something in it: most need little, and each call makes it anew. To
-- each part copy and rollout are known. The one function that Lua cannot express
-- comes from outside: copy, which keeps what JSON knows of a table.

---

-- clone copies a value and whatever it holds. Empty tables are shared: they are
-- lists or objects, which a new one would not be.
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

-- split takes percent (0 to 100) of what the parts add up to, and returns what
-- is taken and what is left of each, as whole numbers in the old proportion.
-- What rounding leaves over stays with the first part. A share above 0 is never
-- rounded to nothing, nor one below 100 to all, where there are two to share.
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

-- finest is of how many parts percent is a whole number: 100, or a power of ten
-- more.
function rollout.finest(percent)
    local whole = 100
    while math.floor(percent * whole * 10 + 0.5) % 1000 ~= 0 and whole < 100000 do
        whole = whole * 10
    end
    return whole
end

---

-- largest is a weight that every kind takes.
local largest = 1000000

-- take splits the weights of backends, which all have one: what is left of each is
-- written, what is taken from them returned.
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

-- shares gives the canary percent of what the stable backends of a rule get, and
-- returns its weight. all are the backends of the rule but for the canary, stable
-- those of them that give; both are copies, whose weights are written. absent is
-- what a weight counts that is not there.
--
-- Weights are relative. Percents are told where nobody else takes part, or as
-- small a part as the share needs; elsewhere all are multiplied, so that whole
-- numbers can say the share.
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
        local highest = math.max(1, total) -- the canary may get all that the stable ones have together
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

-- cross combines each of an owner's matches with each of a step's: both(own,
-- added) returns the match that fulfils both, or nil if no request does. An
-- owner without matches takes any request.
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

-- quote makes a text a regular expression (RE2 or PCRE) that matches itself.
function rollout.quote(text)
    return (string.gsub(text, "[%^%$%.%|%?%*%+%(%)%[%]%{%}\\]", "\\%0"))
end

-- under reports whether a path is a prefix, or lies below it, by whole segments.
function rollout.under(path, prefix)
    prefix = string.gsub(prefix, "/+$", "")
    return path == prefix or path == prefix .. "/" or string.sub(path, 1, #prefix + 1) == prefix .. "/"
end

---

-- conditions joins two lists of {type, name, value} of which all must hold, or
-- returns nil if no request fulfils them. key(condition) is the same for those
-- that are about the same thing; what says to people what it is.
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
            -- it is there already
        elseif how == "Exact" and mineHow == "Exact" then
            return nil
        else
            error("cannot combine two conditions on the " .. what .. " " .. condition.name
                .. " when one is a regular expression; drop one of them from the step or from the object", 0)
        end
    end
    return list
end

-- sameHeader and sameParam are keys for conditions: case matters in names of
-- query parameters, and not in those of headers.
function rollout.sameHeader(header)
    return string.lower(header.name)
end

function rollout.sameParam(param)
    return param.name
end

---

-- headers applies a step's requestHeaderModifier to one that is there already,
-- {set, add, remove} with lists of {name, value} as in the Gateway API, and
-- returns the result. Names of headers are the same in any case.
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

-- headerMaps is the same for kinds that keep {set, add} as maps of values by name.
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

-- whole makes a pattern match whole values only, for gateways that look for it
-- anywhere.
function rollout.whole(pattern)
    return "^(?:" .. pattern .. ")$"
end

-- prefixed is a regular expression for the paths that lie under a prefix, by whole
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

-- chosen reports whether a rule is one of those that a release keeps to, by their
-- names.
function rollout.chosen(rule)
    for _, name in ipairs(obj.routes) do
        if rule.name == name then
            return true
        end
    end
    return false
end

-- named is the object of obj.reads that a reference names, {name, namespace}, or
-- nil. namespace stands in for one that is absent.
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

-- routed reports whether the release routes on an object of obj.reads itself, by
-- the stable Service of this call.
function rollout.routed(of)
    for _, service in ipairs(of.services or {}) do
        if service == obj.stableService then
            return true
        end
    end
    return false
end

-- toRoute says how to have the release route on an object of obj.reads itself.
-- A release names objects of its own namespace only.
function rollout.toRoute(of)
    local what = of.kind .. " " .. of.metadata.name
    if of.metadata.namespace == obj.namespace then
        return "name " .. what .. " in customNetworkRefs of trafficRoutings as well"
    end
    return "move " .. what .. " from namespace " .. of.metadata.namespace .. " to namespace " .. obj.namespace
        .. " and name it in customNetworkRefs of trafficRoutings as well"
end

-- known ends the script when a rule that the release keeps to is not there, or
-- does not lead to the stable Service. leads(rule) tells.
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

-- changes are those of the headers of a share's requests: the step's, but what it
-- says beside matches is about those; a tag is about all.
function rollout.changes()
    if rollout.matched() then
        return obj.tag and { set = { { name = obj.tag.header, value = obj.tag.value } } }
    end
    return obj.requestHeaderModifier
end

---

-- rules is the course of a script for a kind with a list of rules: it returns the
-- list for the step. how has what differs:
--
-- leads(rule) whether it leads to the stable Service
-- narrowed(rule) its copies that lead what the step matches to the canary; they
--   come before the rule
-- share(rule) gives the canary its share in the rule itself
-- mirror(rule) has requests by the rule copied to the canary
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

-- terms and combine are about conditions as meshes have them, {exact}, {prefix} or
-- {regex}. path is the name that a kind gives to that part.
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

-- members are conditions by name, nil when there are none.
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

-- terms turns a match of the step into one of a kind.
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

-- both is a matcher for what a and b match together, or nil if nothing is.
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

-- combine is a match of an owner's rule with terms added, or nil if no request
-- fulfils both.
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

-- refs is about backends as the Gateway API has them, {kind, name, namespace,
-- weight}, in which a weight that is absent is 1. list is the field of a rule that
-- holds them: backendRefs, unless it is told.
local refs = { is = false, stable = false, canary = false, split = false, route = false }
rollout.refs = refs

local pools = { ["inference.networking.k8s.io"] = true, ["inference.networking.x-k8s.io"] = true }

-- is reports whether a backend is a Service of the object's namespace, or a pool of
-- model servers of that name.
function refs.is(ref, service)
    local kind, group = ref.kind or "Service", ref.group or ""
    return ref.name == service and (kind == "Service" and group == "" or kind == "InferencePool" and pools[group] == true)
        and (ref.namespace == nil or ref.namespace == obj.namespace)
end

-- stable is the first backend of a rule that is the stable Service and gets
-- traffic, or nil.
function refs.stable(rule, list)
    for _, ref in ipairs(rule[list or "backendRefs"] or {}) do
        if refs.is(ref, obj.stableService) and ref.weight ~= 0 then
            return ref
        end
    end
end

-- canary is a copy of a backendRef that names the canary Service.
function refs.canary(ref)
    local result = copy(ref)
    result.name = obj.canaryService
    result.weight = nil
    return result
end

-- split gives the canary its share of what the stable Service gets by a rule,
-- and returns its backend. Other backends get what they got.
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

-- narrowed has the copy of a rule for the step's matches, unless no request has
-- both theirs and the rule's.
local function narrowed(rule, both)
    local matches = rollout.cross(rule.matches, obj.matches, both)
    if #matches == 0 then
        return {}
    end
    local result = copy(rule)
    result.name = nil -- a name is given once
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

-- fits ends the script when there are more rules or matches than the schema of
-- the kind takes.
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

-- route is the whole of a script for a kind of the Gateway API. both(own, added)
-- combines a match of a rule with one of the step, nil when no request has both;
-- limits are the most {rules, matchesOfARule, matches} that the kind takes.
--
-- matches: before each rule that leads to the stable Service goes a copy of it
--   with the canary as its only backend, whose matches are the rule's own and
--   the step's. A gateway takes the most specific match of all rules, so that
--   one without the rule's own conditions would lose to the rule.
-- weight: in each rule that leads to the stable Service the canary takes its
--   share from it.
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

-- traefik is for kinds of Traefik, which copies requests and changes headers by
-- objects of their own. They are added to what the script makes.
local traefik = { mirror = false, changeHeaders = false, alone = false }
rollout.traefik = traefik

local version = "traefik.io/v1alpha1"

-- make adds an object, once, and returns its name. It begins with that of the
-- canary Service and a dot, by which it is known as the canary's, and what
-- follows tells apart what is made for other objects, Services and contents.
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

-- keepUsers ends the script when Traefik would send users with a sticky cookie of
-- the stable Service to another version with each request. level is the cookie by
-- which the target keeps users with one of its services, nil if it has none.
function traefik.keepUsers(target, level, advice)
    for _, service in ipairs(target.services or {}) do
        local cookie = rollout.refs.is(service, obj.stableService) and service.sticky and service.sticky.cookie
        if cookie and (level == nil or (level.name or "") ~= "" and level.name == cookie.name) then
            error("Service " .. obj.stableService .. " has a sticky cookie, and its users would lose their sessions in a step with a share: "
                .. "Traefik would send each request to either version, and the cookie names a pod of one; " .. advice, 0)
        end
    end
end

-- targets are all references of a spec to Services and to TraefikServices, of an
-- IngressRoute and of a TraefikService. One that gets nothing is left out.
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

-- beside is the first TraefikService that a spec leads to, itself or by others,
-- and that leads to the stable Service without the release routing on it.
-- namespace is that of the object with the spec.
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

-- alone ends the script in a step with a share or copies when the object leads to
-- the stable Service by a TraefikService as well, on which the release does not
-- route: what goes that way would all stay with the stable version.
function traefik.alone()
    local of = (rollout.percent() > 0 or obj.mirror) and beside(obj.data.spec, obj.namespace, {})
    if of then
        local shares = rollout.refs.stable(of.spec.weighted or {}, "services")
        error("the " .. obj.object.kind .. " leads to Service " .. obj.stableService .. " itself, and by TraefikService " .. of.metadata.name
            .. " as well, so requests that take that way would all stay with the stable version; "
            .. (shares and rollout.toRoute(of) or "lead it to a TraefikService that has the Service in weighted.services, and name that one in customNetworkRefs of trafficRoutings as well"), 0)
    end
end

-- mirror puts in the place of the stable Service, in services of each target, a
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

-- changeHeaders has a route change the headers of its requests.
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
        put(name, "") -- which removes it
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

-- ingress is for scripts of Ingress classes whose controllers take canary
-- Ingresses with annotations like those of ingress-nginx.
local ingress = {}
rollout.ingress = ingress

-- begin is the annotations of a canary Ingress without conditions. What the
-- Ingress has of such annotations itself is not taken over.
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

-- match is the annotations for one match of a step, of which such a controller
-- takes one condition: a header, a cookie (a header of the name
-- canary-by-cookie, whose value names it), or, where queries is given, a query
-- parameter by annotations with that prefix.
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
-- Variables by which ingress-nginx picks the backend of a request.
local variables = { ["$proxy_upstream_name"] = true, ["$proxy_alternative_upstream_name"] = true }

-- word reads the word at a place of a configuration of nginx: in quotes, or up to
-- the next space, semicolon or brace. It returns the word and the place after it.
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

-- passing is the first directive of a snippet that says where requests go, or nil.
-- A directive begins a statement: neither an argument nor a comment is one.
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
            first = first == nil and found or "" -- set has its variable first
        end
    end
end

-- decided ends the script with an error when an annotation of the owner says
-- where requests go: a controller goes by that, and not by a canary Ingress.
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

-- canary is the whole of a script for such a class: the step's match, its
-- weight, or both.
function ingress.canary(prefix, queries)
    local matches = obj.matches or {}
    ingress.decided(prefix)
    if #matches > 1 then
        error("a canary Ingress takes one match, and the step has " .. #matches, 0)
    end
    local annotations = matches[1] and ingress.match(prefix, matches[1], queries) or ingress.begin(prefix, queries)
    if obj.fineWeight then
        local thousandths = math.floor(obj.fineWeight * 1000 + 0.5)
        annotations[prefix .. "canary-weight"], annotations[prefix .. "canary-weight-total"] = tostring(thousandths), "100000"
    elseif obj.weight ~= "-1" then
        annotations[prefix .. "canary-weight"] = obj.weight
    end
    return annotations
end

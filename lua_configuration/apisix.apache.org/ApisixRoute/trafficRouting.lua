-- Splits the http rules of an ApisixRoute between the Services of the stable and of
-- the canary version.
--
-- matches: before each rule that leads to the stable Service goes a copy of it per
--   match, with a name of its own, the match's expressions added, the canary as its
--   only backend, and the rule's priority and one more.
-- weight: in each rule that leads to the stable Service the canary takes its share
--   from it. What ApisixUpstreams get stays. A stream has one backend and cannot
--   share its connections: one that leads there is refused, unless the release keeps
--   to rules by their names.
-- Neither can be done to a rule whose owner shares its requests by the plugin
--   traffic-split, by which the controller carries out weights of backends as well.
-- A rule has its own plugins, and those of the ApisixPluginConfig that it names. If
--   both have a plugin of one name, APISIX uses that of the rule.
-- mirror: each rule that leads to the stable Service gets the plugin that copies
--   requests, to the address of the canary Service, by the scheme of the
--   ApisixUpstream of the stable one.

local rules = obj.data.spec.http or {}

-- An absent weight counts as much as this.
local absent = 100

local function isStable(backend)
    return backend.serviceName == obj.stableService and backend.weight ~= 0
end

local function stableOf(rule)
    for _, backend in ipairs(rule.backends or {}) do
        if isStable(backend) then
            return backend
        end
    end
end

-- canaryOf is a copy of a backend that names the canary Service. A subset is
-- defined by an ApisixUpstream of the stable one.
local function canaryOf(backend)
    local result = rollout.copy(backend)
    result.serviceName, result.weight, result.subset = obj.canaryService, nil, nil
    return result
end

-- named are the plugins of the ApisixPluginConfig that a rule names.
local function named(rule)
    local of = rollout.named("ApisixPluginConfig", { name = rule.plugin_config_name, namespace = rule.plugin_config_namespace }, obj.namespace)
    return of and (of.spec or {}).plugins or {}
end

-- enabled is the plugin of a name that the owner of a rule has switched on.
local function enabled(rule, name)
    for _, list in ipairs({ rule.plugins or {}, named(rule) }) do
        for _, plugin in ipairs(list) do
            if plugin.name == name and plugin.enable then
                return plugin
            end
        end
    end
end

local function refuseSplit(rule, what)
    error("rule " .. rule.name .. " of the ApisixRoute shares its requests by the plugin traffic-split, " .. what
        .. "; write the plugin's shares as weights of backends and upstreams, or name other rules in routes of trafficRoutings", 0)
end

local function share(rule)
    if enabled(rule, "traffic-split") then
        refuseSplit(rule, "which the controller drops where backends have weights")
    end
    local added = canaryOf(stableOf(rule))
    local all, stable = {}, {}
    for _, field in ipairs({ "backends", "upstreams" }) do
        local list = {}
        for _, backend in ipairs(rule[field] or {}) do
            if backend.serviceName ~= obj.canaryService then
                backend = rollout.copy(backend)
                table.insert(list, backend)
                table.insert(all, backend)
                if isStable(backend) then
                    table.insert(stable, backend)
                end
            end
        end
        if #list > 0 then
            rule[field] = list
        end
    end
    added.weight = rollout.shares(all, stable, rollout.percent(), absent)
    table.insert(rule.backends, added)
    if rollout.changes() then
        error("an ApisixRoute changes headers by rule, not by backend; use requestHeaderModifier, or a tag, in steps with matches and no traffic", 0)
    end
end

-- APISIX looks for a pattern anywhere in a value.
local function compare(scope, name, how, value)
    if how == "RegularExpression" then
        return { subject = { scope = scope, name = name }, op = "RegexMatch", value = rollout.whole(value) }
    elseif how == "PathPrefix" then
        return { subject = { scope = scope, name = name }, op = "RegexMatch", value = rollout.prefixed(value) }
    end
    return { subject = { scope = scope, name = name }, op = "Equal", value = value }
end

-- expressions are those of a rule and those of a match; all must hold.
local function expressions(own, match)
    local list = {}
    for _, expression in ipairs(own or {}) do
        table.insert(list, expression)
    end
    if match.path then
        table.insert(list, compare("Path", nil, match.path.type or "PathPrefix", match.path.value or "/"))
    end
    for _, condition in ipairs(match.headers or {}) do
        table.insert(list, compare("Header", condition.name, condition.type, condition.value))
    end
    for _, condition in ipairs(match.queryParams or {}) do
        table.insert(list, compare("Query", condition.name, condition.type, condition.value))
    end
    return list
end

-- rewritten is the configuration of a plugin that changes headers, which in its
-- old form has a map of what to set.
local function rewritten(config)
    local result = rollout.copy(config or {})
    local headers = result.headers or {}
    if next(headers) ~= nil and headers.set == nil and headers.add == nil and headers.remove == nil then
        headers = { set = headers }
    end
    result.headers = rollout.headerMaps(obj.requestHeaderModifier, headers)
    return result
end

-- modified are the plugins of a rule with the step's header changes.
local function modified(rule)
    local own = enabled(rule, "proxy-rewrite") or { name = "proxy-rewrite", enable = true }
    local changed = rollout.copy(own)
    changed.config = rewritten(own.config)
    local list, found = {}, false
    for _, plugin in ipairs(rule.plugins or {}) do
        found = found or plugin == own
        table.insert(list, plugin == own and changed or plugin)
    end
    if not found then
        table.insert(list, changed)
    end
    return list
end

-- free is a name that no rule has.
local names = {}
for _, rule in ipairs(rules) do
    names[rule.name] = true
end
local function free(name)
    local result, n = name .. "-canary", 1
    while names[result] do
        n = n + 1
        result = name .. "-canary-" .. n
    end
    names[result] = true
    return result
end

-- alone ends the script when another owner's rule for a path has the priority that
-- the canary's needs: which of the two wins would be open.
local function alone(rule, priority)
    local paths = {}
    for _, path in ipairs(rule.match.paths) do
        paths[path] = true
    end
    for _, other in ipairs(rules) do
        for _, path in ipairs((other.priority or 0) == priority and other.match.paths or {}) do
            if paths[path] and not stableOf(other) then
                error("rule " .. other.name .. " of the ApisixRoute has priority " .. priority .. " for the path " .. path
                    .. ", which the canary's copy of rule " .. rule.name .. " needs; raise it by one", 0)
            end
        end
    end
end

-- unconditional reports whether a plugin traffic-split takes requests of all kinds
-- to its upstreams, also those that a match gives to the canary.
local function unconditional(config)
    for _, part in ipairs(config.rules or {}) do
        if next(part.match or {}) == nil then
            return true
        end
    end
    return false
end

local function narrowed(rule)
    local split = enabled(rule, "traffic-split")
    if split and unconditional(split.config or {}) then
        refuseSplit(rule, "which takes requests of the step's matches away from the canary")
    end
    local list, priority = {}, (rule.priority or 0) + 1
    alone(rule, priority)
    for i, match in ipairs(obj.matches) do
        local result = rollout.copy(rule)
        result.name, result.priority, result.upstreams = free(rule.name), priority, nil
        result.match = rollout.copy(rule.match)
        result.match.exprs = expressions(rule.match.exprs, match)
        result.backends = { (canaryOf(stableOf(rule))) }
        if obj.requestHeaderModifier then
            result.plugins = modified(rule)
        end
        list[i] = result
    end
    return list
end

-- schemeAt is how requests to a port of the stable Service are carried. The
-- controller takes nothing from an ApisixUpstream as a whole for a port that it names.
local function schemeAt(port)
    local of = rollout.named("ApisixUpstream", { name = obj.stableService }, obj.namespace)
    local settings = of and of.spec or {}
    for _, own in ipairs(settings.portLevelSettings or {}) do
        if own.port == port then
            settings = own
            break
        end
    end
    return (settings.scheme or "") ~= "" and settings.scheme or "http"
end

-- mirror has requests by a rule copied to the canary. The plugin takes a URL, and a
-- part of 1.
local function mirror(rule)
    local port = stableOf(rule).servicePort
    if type(port) ~= "number" then
        error("rule " .. rule.name .. " of the ApisixRoute leads to port " .. tostring(port)
            .. ", and the address to which requests are copied needs a number; write servicePort as one, or drop mirror from the step", 0)
    end
    if enabled(rule, "proxy-mirror") then
        error("rule " .. rule.name .. " of the ApisixRoute copies its requests already, and can only once; drop mirror from the step", 0)
    end
    local list = {}
    for _, plugin in ipairs(rule.plugins or {}) do
        if plugin.name ~= "proxy-mirror" then
            table.insert(list, plugin)
        end
    end
    table.insert(list, { name = "proxy-mirror", enable = true, config = {
        host = schemeAt(port) .. "://" .. obj.mirror.service .. "." .. obj.namespace .. ".svc.cluster.local:" .. port,
        sample_ratio = obj.mirror.percent / 100,
    } })
    rule.plugins = list
end

-- unshared ends the script when connections of a stream would all stay stable while
-- requests are shared.
local function unshared(streams)
    for _, stream in ipairs(streams) do
        if stream.backend and stream.backend.serviceName == obj.stableService then
            error("stream " .. stream.name .. " of the ApisixRoute leads to Service " .. obj.stableService
                .. " as well, and has one backend, so its connections cannot be shared; name the http rules in routes of trafficRoutings"
                .. ", or move the stream to an ApisixRoute of its own", 0)
        end
    end
end

obj.data.spec.http = rollout.rules(rules, "ApisixRoute", { leads = stableOf, narrowed = narrowed, share = share, mirror = mirror })
if obj.canaryWeight > 0 and obj.routes == nil then
    unshared(obj.data.spec.stream or {})
end
return obj.data

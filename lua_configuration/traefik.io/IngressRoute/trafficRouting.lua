-- Splits the routes of an IngressRoute between the Services of the stable and of
-- the canary version.
--
-- matches: before each route that leads to the stable Service goes a copy of it
--   whose rule asks for the step's matches as well, and which only leads to the
--   canary. Its priority is the route's and one more. Header changes are a
--   Middleware, made beside the IngressRoute, that the copy has after its own.
-- weight: in each route that leads to the stable Service the canary takes its
--   share from it. A route shares each request anew, so a sticky cookie of the
--   stable Service has the step refused.
-- Neither a share nor copies reach what goes to the stable Service by a
--   TraefikService as well: the step is refused, unless the release routes on that.
-- mirror: the stable Service's place takes a TraefikService, made beside the
--   IngressRoute, which passes requests on to the stable Service and copies them
--   to the canary.

local refs = rollout.refs
local routes = obj.data.spec.routes or {}

-- text writes a value as the rules of Traefik have it.
local function text(value)
    if string.find(value, "`", 1, true) then
        return '"' .. string.gsub(value, '[\\"]', "\\%0") .. '"'
    end
    return "`" .. value .. "`"
end

local function call(matcher, ...)
    local values = { ... }
    for i, value in ipairs(values) do
        values[i] = text(value)
    end
    return matcher .. "(" .. table.concat(values, ", ") .. ")"
end

-- Traefik takes prefixes by characters, and patterns anywhere in a path.
local function path(condition)
    local how, value = condition.type or "PathPrefix", condition.value or "/"
    if how == "Exact" then
        return call("Path", value)
    elseif how == "RegularExpression" then
        return call("PathRegexp", rollout.whole(value))
    end
    local prefix = string.gsub(value, "/+$", "")
    if prefix == "" then
        return call("PathPrefix", "/")
    end
    return "(" .. call("Path", prefix) .. " || " .. call("PathPrefix", prefix .. "/") .. ")"
end

-- value compares a header or a query parameter. Traefik takes no empty value.
local function value(matcher, condition)
    if condition.type == "RegularExpression" then
        return call(matcher .. "Regexp", condition.name, rollout.whole(condition.value))
    elseif condition.value == "" then
        return call(matcher .. "Regexp", condition.name, "^$")
    end
    return call(matcher, condition.name, condition.value)
end

-- either is the rule for the step's matches, of which one is enough.
local function either()
    local alternatives = {}
    for i, match in ipairs(obj.matches) do
        local all = {}
        if match.path then
            table.insert(all, path(match.path))
        end
        for _, condition in ipairs(match.headers or {}) do
            table.insert(all, value("Header", condition))
        end
        for _, condition in ipairs(match.queryParams or {}) do
            table.insert(all, value("Query", condition))
        end
        alternatives[i] = table.concat(all, " && ")
    end
    return #alternatives == 1 and alternatives[1] or "(" .. table.concat(alternatives, ") || (") .. ")"
end

-- priority is that which Traefik gives a route: by its own word, or by the length
-- of its rule.
local function priority(route)
    return (route.priority or 0) ~= 0 and route.priority or #route.match
end

local function narrowed(route)
    if (route.syntax or "") == "v2" then
        error("the route " .. route.match .. " has rules in the syntax of Traefik 2; write them in that of version 3, or use traffic in this step", 0)
    end
    local result = rollout.copy(route)
    result.priority = priority(route) + 1
    if result.priority >= 2 ^ 53 then
        error("the route " .. route.match .. " leaves no priority above its own; lower it", 0)
    end
    local rules = { "(" .. route.match .. ")", "(" .. either() .. ")" }
    -- Which of two routes with one priority wins is open; it must be another owner's.
    for _, other in ipairs(routes) do
        if priority(other) == result.priority and not refs.stable(other, "services") then
            table.insert(rules, "!(" .. other.match .. ")")
        end
    end
    result.match = table.concat(rules, " && ")
    result.services = { (refs.canary(refs.stable(route, "services"))) }
    if obj.requestHeaderModifier then
        rollout.traefik.changeHeaders(result, obj.requestHeaderModifier)
    end
    return { result }
end

obj.data.spec.routes = rollout.rules(routes, "IngressRoute", {
    leads = function(route)
        return refs.stable(route, "services")
    end,
    narrowed = narrowed,
    share = function(route)
        rollout.traefik.keepUsers(route, nil, "lead the route to a TraefikService that has the Service in weighted.services and a cookie in weighted.sticky, and name that TraefikService")
        refs.split(route, "services")
    end,
    mirror = function() end, -- once the shares are told
})
rollout.traefik.alone()
if obj.mirror then
    rollout.traefik.mirror(routes)
end
return obj.data

-- Splits the rules of an HTTPRoute between the Services of the stable and of the
-- canary version, by weight and by matches: see rollout.refs.route.

local function pathOf(match)
    local path = match.path or {}
    return path.type or "PathPrefix", path.value or "/"
end

-- bothPaths is the path that is both, or nil if none is.
local function bothPaths(own, added)
    local mine, minePath = pathOf(own)
    local theirs, theirPath = pathOf(added)
    if mine == theirs and minePath == theirPath or theirs == "PathPrefix" and theirPath == "/" then
        return own.path
    elseif mine == "PathPrefix" and minePath == "/" then
        return added.path
    elseif mine == "RegularExpression" or theirs == "RegularExpression" then
        error("cannot combine the path " .. minePath .. " of the HTTPRoute with the path " .. theirPath
            .. " of the step when one is a regular expression; drop one of them", 0)
    elseif mine == "PathPrefix" and rollout.under(theirPath, minePath) then
        return added.path
    elseif theirs == "PathPrefix" and rollout.under(minePath, theirPath) then
        return own.path
    end
    return nil
end

local function both(own, added)
    local result = rollout.copy(own)
    if added.path then
        result.path = bothPaths(own, added)
        if result.path == nil and own.path then
            return nil
        end
    end
    local headers = rollout.conditions(own.headers, added.headers, "header", rollout.sameHeader)
    local params = rollout.conditions(own.queryParams, added.queryParams, "query parameter", rollout.sameParam)
    if headers == nil or params == nil then
        return nil
    end
    result.headers = #headers > 0 and headers or own.headers
    result.queryParams = #params > 0 and params or own.queryParams
    return result
end

return rollout.refs.route("HTTPRoute", both, { rules = 16, matchesOfARule = 64, matches = 128 })

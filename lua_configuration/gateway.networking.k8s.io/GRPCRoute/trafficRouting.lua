-- Splits the rules of a GRPCRoute between the Services of the stable and of the
-- canary version, by weight and by headers: see rollout.refs.route. The methods
-- of a rule stay.

local function both(own, added)
    local headers = rollout.conditions(own.headers, added.headers, "header", rollout.sameHeader)
    if headers == nil then
        return nil
    end
    local result = rollout.copy(own)
    result.headers = headers
    return result
end

return rollout.refs.route("GRPCRoute", both, { rules = 16, matchesOfARule = 64, matches = 128 })

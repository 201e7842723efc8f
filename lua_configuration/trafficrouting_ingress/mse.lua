-- Routes by a canary Ingress of a cloud-native gateway of MSE, which takes the
-- annotations of ingress-nginx and has some of its own: query parameters,
-- changes of request headers, and a subset of pods behind one Service.

local own = "mse.ingress.kubernetes.io/"
-- Without a subset the canary Ingress would lead to all pods, as its Ingress does.
if obj.canaryService == obj.stableService and not (obj.annotations or {})[own .. "service-subset"] then
    return { unsupported = "both versions stand behind Service " .. obj.stableService .. ", and the Ingress does not say which of its pods are the stable ones; "
        .. "add the annotation " .. own .. "service-subset to it, with the name of their subset, or let the release make a canary Service" }
end
local annotations = rollout.ingress.canary("nginx.ingress.kubernetes.io/", own)

-- Each change is a line of a name and a value.
local change = obj.requestHeaderModifier or {}
local function lines(headers)
    if headers == nil or #headers == 0 then
        return nil
    end
    local result = {}
    for _, header in ipairs(headers) do
        table.insert(result, header.name .. " " .. header.value)
    end
    return table.concat(result, "\n")
end
annotations[own .. "request-header-control-update"] = lines(change.set)
annotations[own .. "request-header-control-add"] = lines(change.add)
annotations[own .. "request-header-control-remove"] = change.remove and #change.remove > 0 and table.concat(change.remove, ",") or nil

if annotations[own .. "service-subset"] then
    annotations[own .. "service-subset"] = "gray"
end
return annotations

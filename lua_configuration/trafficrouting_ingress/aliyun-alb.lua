-- Routes by canary Ingresses of an Aliyun ALB. A rule of an ALB has either a
-- header or cookie, or a weight: each match gets an Ingress of its own, and the
-- weight another one, after them. The order of each is unique behind its load
-- balancer, and given from outside.

local prefix = "alb.ingress.kubernetes.io/"
local create = {}
for i, match in ipairs(obj.matches or {}) do
    table.insert(create, { suffix = i > 1 and tostring(i) or "", annotations = rollout.ingress.match(prefix, match) })
end
if obj.weight ~= "-1" then
    local annotations = rollout.ingress.begin(prefix)
    annotations[prefix .. "canary-weight"] = obj.weight
    table.insert(create, { suffix = #create > 0 and "weight" or "", annotations = annotations })
end
return { create = create }

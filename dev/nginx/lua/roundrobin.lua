-- In place of resty.roundrobin, which is a library of C: nodes take turns as often as they weigh, as evenly as can be.
local roundrobin = {}
roundrobin.__index = roundrobin

function roundrobin:new(nodes)
  local it = setmetatable({}, roundrobin)
  it:reinit(nodes)
  return it
end

function roundrobin:reinit(nodes)
  self.nodes, self.total = {}, 0
  for id, weight in pairs(nodes) do
    table.insert(self.nodes, {id = id, weight = weight, credit = 0})
    self.total = self.total + weight
  end
end

function roundrobin:find()
  local most
  for _, node in ipairs(self.nodes) do
    node.credit = node.credit + node.weight
    if not most or node.credit > most.credit then most = node end
  end
  if not most then return nil end
  most.credit = most.credit - self.total
  return most.id
end

roundrobin.next = roundrobin.find
return roundrobin

-- In place of resty.chash, which is a library of C: each node gets the keys for which its hash is the greatest, so that a key keeps its node when others
-- come or go.
local chash = {}
chash.__index = chash

function chash:new(nodes)
  local it = setmetatable({}, chash)
  it:reinit(nodes)
  return it
end

function chash:reinit(nodes)
  self.nodes = nodes
end

function chash:find(key)
  local found, greatest
  for id in pairs(self.nodes) do
    local hash = ngx.crc32_long(ngx.md5(key .. " " .. id))
    if not greatest or hash > greatest then found, greatest = id, hash end
  end
  return found
end

return chash

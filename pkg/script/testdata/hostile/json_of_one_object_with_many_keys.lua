-- ends with: Bytes
local p={} for i=1,9000 do p[i]='"k'..i..'":1' end local s="{"..table.concat(p,",").."}" while true do json.decode(s) end

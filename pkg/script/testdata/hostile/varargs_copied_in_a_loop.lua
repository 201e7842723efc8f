-- ends with: Bytes
local t={} for i=1,240 do t[i]=i end local function f(...) return ... end while true do f(unpack(t)) end

-- ends with: Bytes
local t={} for i=1,240 do t[i]=i end local function f(...) for i=1,1e9 do local x=select(i%200+1,...) end end f(unpack(t))

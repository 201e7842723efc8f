-- ends with: Bytes
local t = {} local function f(...) for i = 1, 1e9 do t[i] = {...} end end f(unpack({}, 1, 200))

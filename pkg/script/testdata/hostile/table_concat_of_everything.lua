-- ends with: Bytes
local t = {} for i = 1, 1000 do t[i] = ("x"):rep(1000) end while true do t[1] = table.concat(t) end

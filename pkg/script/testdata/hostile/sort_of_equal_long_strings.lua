-- ends with: Steps
local t = {} for i = 1, 3000 do t[i] = ("x"):rep(900) .. "y" end for i = 1, 100 do table.sort(t) end

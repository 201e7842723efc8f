-- ends with: Steps
local t = {} for i = 1, 1000 do t[i] = "x" end while true do json.encode(t) end

-- ends with: Steps
local t = {} for i = 1, 16000 do t[i] = i end for i = 16000, 2, -1 do t[i] = nil end for i = 1, 1e5 do local n = #t end

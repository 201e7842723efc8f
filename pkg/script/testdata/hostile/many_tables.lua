-- ends with: Bytes
local t = {} for i = 1, 1e9 do t[i] = {} t[i].a = 1 end

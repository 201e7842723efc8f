-- ends with: Bytes
local t = {} for i = 1, 1e9 do t[i] = table.create(1e9) end

-- ends with: Output
local t = {} t[1], t[3] = 1, 3 return t

-- ends with: Output
local t = {} for i = 1, 12000 do t[i] = i end return {t, t, t, t, t}

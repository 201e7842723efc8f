-- ends with: Output
local t = {1} for i = 1, 40 do t = {t, t} end return t

-- ends with: Output
local s = ("x"):rep(100000) local t = {} for i = 1, 1000 do t[i] = s end return t

-- ends with: Output
local t = {} for i = 1, 60 do t[67108863 - i] = 1 end return #t

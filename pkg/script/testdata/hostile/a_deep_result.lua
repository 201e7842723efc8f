-- ends with: Output
local t = {} local r = t for i = 1, 5000 do local n = {} t[1] = n t = n end return r

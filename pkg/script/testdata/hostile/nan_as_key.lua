-- ends with: Runtime
local t = {} t[0 / 0] = 1

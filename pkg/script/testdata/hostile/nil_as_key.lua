-- ends with: Runtime
local t = {} t[nil] = 1

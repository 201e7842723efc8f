-- ends with: Runtime
local function f() return 1 + f() end return f()

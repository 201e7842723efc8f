-- ends with: Runtime
local function f() return f() end f()

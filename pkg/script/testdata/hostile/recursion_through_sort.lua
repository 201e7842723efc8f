-- ends with: Runtime
local function f() table.sort({2,1},function() f() return true end) end f()

-- ends with: Runtime
local it it=(("a"):rep(1000)):gmatch("a") local function f() local x=it() if x then return f() end return f() end return f()

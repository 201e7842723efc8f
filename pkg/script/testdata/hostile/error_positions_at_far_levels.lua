-- ends with: Steps
local function f(n) if n==0 then error("x",150) end return (f(n-1)) end while true do pcall(f,150) end

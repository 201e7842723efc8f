-- ends with: Steps
local function f(n) if n==0 then error("x") end local ok,e=pcall(f,n-1) error(e) end while true do pcall(f,90) end

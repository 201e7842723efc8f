-- ends with: Bytes
local function f(n) if n==0 then return {} end return {f(n-1),f(n-1),f(n-1)} end return f(20)

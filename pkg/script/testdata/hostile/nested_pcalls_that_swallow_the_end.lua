-- ends with: Steps
local function f() pcall(f) while true do end end pcall(f) return {spec={}}

-- ends with: Steps
local s,r=("a"):rep(1000),("%%"):rep(100) while true do s:gsub("a",r) end

-- ends with: Steps
local s,n=("a"):rep(1000),("a"):rep(250000) while true do s:find(n) end

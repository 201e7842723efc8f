-- ends with: Steps
local s,n=("a"):rep(250000),("a"):rep(120000).."b" while true do s:find(n,1,true) end

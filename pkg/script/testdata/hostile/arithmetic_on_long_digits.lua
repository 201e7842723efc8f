-- ends with: Steps
local s=("0"):rep(250000).."7" while true do local x=s+1 end

-- ends with: Steps
local s=("0"):rep(250000).."9" while true do local x=2^s end

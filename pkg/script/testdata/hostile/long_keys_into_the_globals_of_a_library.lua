-- ends with: Steps
local k=("x"):rep(250000) while true do local v=string[k] end

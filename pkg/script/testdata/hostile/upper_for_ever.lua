-- ends with: Steps
local s = ("x"):rep(200000) while true do s = s:upper() end

-- ends with: Steps
local s=(" "):rep(250000) while true do pcall(function() return s+1 end) end

-- ends with: Steps
local t={} while true do t[#t+1]=string.rep("x",2e5) end

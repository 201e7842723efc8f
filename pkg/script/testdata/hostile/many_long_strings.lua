-- ends with: Bytes
local t={} while true do t[#t+1]=string.rep("x",1e6) end

-- ends with: Steps
local t = {} while true do t[#t + 1] = ("x"):rep(100000) end

-- ends with: Steps
local t = {} while true do t[#t + 1] = ("x"):gmatch("x") end

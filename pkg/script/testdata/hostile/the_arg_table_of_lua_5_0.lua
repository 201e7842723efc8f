-- ends with: Steps
local t = {} local function f(...) t[#t + 1] = arg end while true do f(1, 2, 3) end

-- ends with: Steps
local s = ("a"):rep(250000) for i = 1, 1e6 do s:gsub("a", "b") end

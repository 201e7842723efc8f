-- ends with: Bytes
local s = "a" while true do s = s:gsub("a", "aa") end

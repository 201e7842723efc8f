-- ends with: Steps
local s=string.rep("a",2e5) local r=s:gsub("a",function() return "bb" end) return #r

-- ends with: Bytes
local s=string.rep("a",2e5) local r=s:gsub("a","bb") return #r

-- ends with: Bytes
local s=("a"):rep(300) return s:gsub("a",function() return (s:gsub("a",function() return s end)) end)

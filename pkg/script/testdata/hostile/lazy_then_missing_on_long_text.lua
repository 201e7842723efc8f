-- ends with: Steps
local s=string.rep("a",2e5) return s:find(".-b")

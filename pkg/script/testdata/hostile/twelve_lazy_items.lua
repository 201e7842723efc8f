-- ends with: Steps
local s=string.rep("a",300) return s:match(string.rep("a-",12).."b")

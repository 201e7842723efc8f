-- ends with: Steps
local s=string.rep("1",2e5) while true do local n=tonumber(s) end

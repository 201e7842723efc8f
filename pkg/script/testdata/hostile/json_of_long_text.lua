-- ends with: Steps
local s=("\1"):rep(40000) while true do json.encode(s) end

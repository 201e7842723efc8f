-- ends with: Steps
local s='"'..("\\u0041"):rep(40000)..'"' while true do json.decode(s) end

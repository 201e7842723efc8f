-- ends with: Steps
local r=("%%"):rep(120000) while true do ("a"):gsub("a",r) end

-- ends with: Steps
local p=("a"):rep(250000).."." while true do ("b"):find(p) end

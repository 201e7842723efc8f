-- ends with: Steps
local f=("%%"):rep(125000) while true do string.format(f) end

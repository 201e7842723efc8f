-- ends with: Steps
local s=("1"):rep(250000) while true do pcall(json.decode,s) end

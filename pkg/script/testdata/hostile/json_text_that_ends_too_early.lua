-- ends with: Steps
local s="["..("1,"):rep(120000) while true do pcall(json.decode,s) end

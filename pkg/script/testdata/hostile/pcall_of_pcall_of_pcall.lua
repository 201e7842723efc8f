-- ends with: Steps
local p = pcall while true do p(p, p, p, p, p, error) end

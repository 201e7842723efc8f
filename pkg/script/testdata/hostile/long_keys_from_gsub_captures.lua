-- ends with: Steps
local s,t=("a"):rep(100000),{} while true do s:gsub(".+",t) end

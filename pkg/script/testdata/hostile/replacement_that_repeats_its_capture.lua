-- ends with: Steps
local s=("a"):rep(500) while true do s:gsub("(a+)","%1%1%1%1%1%1%1%1%1") end

-- ends with: Steps
local x=2 while true do x=x^x end

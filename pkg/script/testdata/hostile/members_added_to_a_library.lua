-- ends with: Steps
local i=0 while true do i=i+1 string["f"..i]=i end

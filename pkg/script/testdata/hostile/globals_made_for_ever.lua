-- ends with: Steps
local i=0 while true do i=i+1 a=i b=a c=b d=c end

-- ends with: Steps
local t={} for i=1,12000 do t[i]=i end for i=2,12000 do t[i]=nil end while true do next(t,6000) end

-- ends with: Steps
local t={} for i=1,8000 do t[i]=i end for i=1,8000 do t[i]=nil end t.x=1 while true do next(t) end

-- ends with: Steps
local t={} for i=1,7000 do t["k"..i]=1 end for i=1,7000 do t["k"..i]=nil end t.z=1 while true do next(t) end

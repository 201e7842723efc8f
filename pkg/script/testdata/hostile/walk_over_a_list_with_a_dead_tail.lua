-- ends with: Steps
local t={} for i=1,12000 do t[i]=i end for i=6000,12000 do t[i]=nil end while true do for k in pairs(t) do end end

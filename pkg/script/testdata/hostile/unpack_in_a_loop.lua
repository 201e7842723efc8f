-- ends with: Steps
local t={} for i=1,240 do t[i]=i end while true do select("#",unpack(t)) end

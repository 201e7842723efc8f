-- ends with: Steps
local t={} for i=1,100 do t[i]=i end for k in pairs(t) do t[#t+1]=k t[k]=nil end

-- ends with: Steps
local t,ks={},{} for i=1,5000 do local k={} ks[i]=k t[k]=1 end for i=1,5000 do t[ks[i]]=nil end t.x=1 while true do next(t) end

-- ends with: Steps
local t,seed={},1 for i=1,5000 do t[i]=i end table.sort(t,function(a,b) seed=(seed*16807)%2147483647 return seed%2==0 end)

-- ends with: Output
local t={} for i=1,3000 do t[i]=-i end table.sort(t,function(a,b) t[#t+1]=a return a<b end)

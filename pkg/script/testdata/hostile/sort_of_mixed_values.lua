-- ends with: Runtime
local t={} for i=1,3000 do t[i]=i%2==0 and i or "x"..i end table.sort(t)

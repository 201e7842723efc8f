-- ends with: Steps
local t={} for i=1,1.5e6 do t[i]=(i*7919)%1000003 end table.sort(t) return 1

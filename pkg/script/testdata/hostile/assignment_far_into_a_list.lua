-- ends with: Output
local t={} for i=1,60 do t[16383-i]=i end return #t

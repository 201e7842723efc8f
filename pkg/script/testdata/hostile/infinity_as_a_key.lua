-- ends with: Output
local t={} t[1/0]=1 t[-1/0]=2 for k in pairs(t) do t[k]=nil end return t[1/0]

-- ends with: Output
local t={} t[t]=t return t

-- ends with: Runtime
local t={3,2,1} local function less(a,b) table.sort(t,less) return a<b end table.sort(t,less)

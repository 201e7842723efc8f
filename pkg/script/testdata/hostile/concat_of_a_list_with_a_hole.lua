-- ends with: Runtime
local t={1,2,3} t[2]=nil return table.concat(t,",",1,3)

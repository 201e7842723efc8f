-- ends with: Steps
local t={a=1} local n=0 for k in pairs(t) do n=n+1 t["x"..n]=1 end

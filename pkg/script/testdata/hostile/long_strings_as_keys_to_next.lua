-- ends with: Steps
local k=("x"):rep(250000) local t={} for i=1,20 do t["k"..i]=1 end t[k]=1 t.b=2 while true do next(t,k) end

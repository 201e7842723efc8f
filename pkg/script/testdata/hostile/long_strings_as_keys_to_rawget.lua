-- ends with: Steps
local k=("x"):rep(250000) local t={} for i=1,20 do t["k"..i]=1 end while true do rawget(t,k) end

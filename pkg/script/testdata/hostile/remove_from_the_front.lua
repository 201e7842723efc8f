-- ends with: Steps
local t={} for i=1,12000 do t[i]=i end while true do local x=table.remove(t,1) table.insert(t,x) end

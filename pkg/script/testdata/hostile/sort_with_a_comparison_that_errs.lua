-- ends with: Steps
local t={} for i=1,3000 do t[i]=i end while true do pcall(table.sort,t,function(a,b) error("x") end) end

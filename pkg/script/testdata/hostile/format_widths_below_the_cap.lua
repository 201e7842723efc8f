-- ends with: Steps
local t={} for i=1,200 do t[i]=i end local f=("%99d"):rep(200) while true do string.format(f,unpack(t)) end

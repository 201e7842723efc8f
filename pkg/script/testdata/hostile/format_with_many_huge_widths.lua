-- ends with: Runtime
local f=string.rep("%999999d",1000) local t={} for i=1,200 do t[i]=1 end return #string.format(f,unpack(t))

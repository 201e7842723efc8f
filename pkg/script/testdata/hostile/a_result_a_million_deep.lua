-- ends with: Bytes
local t={} local r=t for i=1,1e6 do local n={} t[1]=n t=n end return r

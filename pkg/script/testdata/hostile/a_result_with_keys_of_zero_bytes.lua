-- ends with: Runtime
local t={} for i=1,100 do t[("\0"):rep(i)]=i end return {spec=t} ..1

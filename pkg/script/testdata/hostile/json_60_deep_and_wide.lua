-- ends with: Runtime
local t={1,1,1,1,1,1,1,1} for i=1,6 do t={t,t,t,t,t} end while true do json.encode(t) end

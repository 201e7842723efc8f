-- ends with: Runtime
local t={1} for i=1,40 do t={t,t} end return json.encode(t)

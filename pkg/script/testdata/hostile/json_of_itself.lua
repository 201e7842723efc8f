-- ends with: Runtime
local t={} t.t=t return json.encode(t)

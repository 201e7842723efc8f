-- ends with: Runtime
local t=setmetatable({},{}) getmetatable(t).__index=t return t.x

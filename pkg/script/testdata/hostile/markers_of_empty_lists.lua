-- ends with: Steps
local t=json.decode("[]") t.x=1 while true do t=json.decode(json.encode(t)) end

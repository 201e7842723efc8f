-- ends with: Steps
local e="x" while true do local ok,m=pcall(error,e..e) e=m end

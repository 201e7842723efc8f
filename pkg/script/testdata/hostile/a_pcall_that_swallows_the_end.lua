-- ends with: Steps
local n=0 repeat local ok=pcall(function() while true do n=n+1 end end) until false

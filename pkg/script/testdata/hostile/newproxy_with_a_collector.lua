-- ends with: Runtime
local p=newproxy(true) getmetatable(p).__gc=function() while true do end end return 1

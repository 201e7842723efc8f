-- ends with: Runtime
local s="return 1" while true do loadstring(s.." "..string.rep("--x\n",1e4))() end

-- ends with: Bytes
local f,g f=function() return pcall(g) end g=function() return pcall(f) end while true do f() end

-- ends with: Steps
local k=("x"):rep(250000) while true do pcall(function() local n n[k]=1 end) end

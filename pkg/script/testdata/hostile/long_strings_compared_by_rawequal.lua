-- ends with: Steps
local a,b=("x"):rep(250000),("x"):rep(250000) while rawequal(a,b) do end

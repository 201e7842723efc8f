-- ends with: Steps
while true do pcall(error, ("x"):rep(1000)) end

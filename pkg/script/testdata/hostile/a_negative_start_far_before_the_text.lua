-- ends with: Steps
while true do ("abc"):find("c",-1e15) end

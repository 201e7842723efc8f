-- ends with: Runtime
while true do collectgarbage() end

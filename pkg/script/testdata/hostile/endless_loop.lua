-- ends with: Steps
while true do end

-- ends with: Steps
while true do local x=(1/0)%3 end

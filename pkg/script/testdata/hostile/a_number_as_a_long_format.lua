-- ends with: Steps
while true do local s=string.format(("%%"):rep(100000)) end

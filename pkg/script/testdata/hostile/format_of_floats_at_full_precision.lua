-- ends with: Steps
while true do string.format("%99.99f%99.99f%99.99f",1e308,-1e308,1e-308) end

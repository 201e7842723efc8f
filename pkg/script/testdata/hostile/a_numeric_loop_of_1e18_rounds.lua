-- ends with: Steps
for i = 1, 1e18 do end

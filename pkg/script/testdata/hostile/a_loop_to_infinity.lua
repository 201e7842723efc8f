-- ends with: Steps
for i=1,1/0 do end

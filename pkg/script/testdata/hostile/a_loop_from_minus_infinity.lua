-- ends with: Steps
for i=-1/0,0 do end

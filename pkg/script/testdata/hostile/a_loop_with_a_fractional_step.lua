-- ends with: Steps
for i=0,1,1e-18 do end

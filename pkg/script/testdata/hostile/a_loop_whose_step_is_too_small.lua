-- ends with: Steps
for i=2^53,2^53+2 do end

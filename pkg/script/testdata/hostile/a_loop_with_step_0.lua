-- ends with: Output
for i = 1, 2, 0 do end

-- ends with: Steps
for i=1,1e9 do for w in ("aaa"):gmatch("^a") do end end

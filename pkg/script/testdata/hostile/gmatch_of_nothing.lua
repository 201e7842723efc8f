-- ends with: Steps
for i = 1, 1e6 do for w in (("a"):rep(200000)):gmatch("b") do end end

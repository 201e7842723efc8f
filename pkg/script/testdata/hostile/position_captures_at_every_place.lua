-- ends with: Steps
local n=0 for p in (("a"):rep(250000)):gmatch("()") do n=n+p end return n

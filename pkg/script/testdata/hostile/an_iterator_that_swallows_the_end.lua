-- ends with: Steps
for _ in function() pcall(function() while true do end end) return 1 end do end return {spec={}}

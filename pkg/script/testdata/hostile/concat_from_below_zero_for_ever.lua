-- ends with: Steps
local t={} while true do pcall(table.concat,t,"x",-2^40,2^40) end

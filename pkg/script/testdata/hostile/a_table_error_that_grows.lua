-- ends with: Steps
local e={} while true do local ok,m=pcall(error,{e}) e=m end

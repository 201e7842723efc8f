-- ends with: Steps
local t={} local nan=0/0 while true do local v=t[nan] end

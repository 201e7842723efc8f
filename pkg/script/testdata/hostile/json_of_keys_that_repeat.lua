-- ends with: Steps
local s="{"..('"a":{},'):rep(25000)..'"a":1}' while true do json.decode(s) end

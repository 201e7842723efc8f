-- ends with: Bytes
local s=("["):rep(9000)..("]"):rep(9000) while true do pcall(json.decode,s) end

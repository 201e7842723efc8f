-- In place of resty.lock, where nobody else is.
local lock = {}
function lock:new() return setmetatable({}, {__index = {lock = function() return 0 end, unlock = function() return 1 end}}) end
return lock

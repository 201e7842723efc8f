-- ends with: a value
local t={} t[""]=function() error("x") end local ok,e=pcall(function() t[""]() end) return {spec={ok=ok,e=e}}

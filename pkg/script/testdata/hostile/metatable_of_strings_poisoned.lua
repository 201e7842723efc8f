-- ends with: Runtime
getmetatable("").__index=function() return "x" end return ("a").b

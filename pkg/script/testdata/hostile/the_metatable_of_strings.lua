-- ends with: Runtime
getmetatable("").__index = nil

-- ends with: Runtime
tostring=function(v) return tostring(v) end return tostring({})

-- ends with: Runtime
return string.format(("%99d"):rep(4000), unpack({}, 1, 200))

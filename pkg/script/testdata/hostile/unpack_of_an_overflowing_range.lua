-- ends with: Runtime
return unpack({}, -2^62, 2^62)

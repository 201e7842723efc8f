-- ends with: Runtime
return select("#", unpack({}, 1, 1e8))

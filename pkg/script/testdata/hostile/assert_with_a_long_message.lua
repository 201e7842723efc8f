-- ends with: Runtime
assert(false,("x"):rep(250000))

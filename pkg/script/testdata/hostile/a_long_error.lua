-- ends with: Runtime
error(("x"):rep(200000))

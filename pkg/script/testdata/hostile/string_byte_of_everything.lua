-- ends with: Runtime
return (("x"):rep(100000)):byte(1, -1)

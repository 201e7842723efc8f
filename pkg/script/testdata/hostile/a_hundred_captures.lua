-- ends with: Runtime
return ("x"):match(("(x?)"):rep(100))

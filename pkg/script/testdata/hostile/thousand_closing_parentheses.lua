-- ends with: Runtime
return ("x"):match((")"):rep(1000))

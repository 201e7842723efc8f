-- ends with: Runtime
return ("x"):match("x)")

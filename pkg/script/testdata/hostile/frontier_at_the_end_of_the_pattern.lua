-- ends with: Runtime
return ("x"):find("%f")

-- ends with: Runtime
error("x", -5)

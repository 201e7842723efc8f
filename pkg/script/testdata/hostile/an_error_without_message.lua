-- ends with: Runtime
error()

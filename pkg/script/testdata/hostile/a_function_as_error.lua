-- ends with: Runtime
error(print)

-- ends with: Runtime
error("x", 2^53)

-- ends with: Runtime
dofile("/dev/zero")

-- ends with: Runtime
setfenv(1, {})

-- ends with: Runtime
error("%s %d %!")

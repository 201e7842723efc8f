-- ends with: Runtime
loadstring("return 1")()

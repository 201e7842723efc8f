-- ends with: Runtime
loadfile()

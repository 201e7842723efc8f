-- ends with: Runtime
return string.format("%999999d", 1)

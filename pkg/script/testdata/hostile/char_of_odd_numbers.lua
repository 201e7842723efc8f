-- ends with: Runtime
return string.char(-1)

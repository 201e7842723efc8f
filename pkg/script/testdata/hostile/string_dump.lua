-- ends with: Runtime
return string.dump(print)

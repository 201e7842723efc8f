-- ends with: Runtime
return tostring(getfenv(0)._G)

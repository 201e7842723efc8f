-- ends with: Bytes
return string.rep("x", 1e12)

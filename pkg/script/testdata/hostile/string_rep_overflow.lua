-- ends with: Bytes
return string.rep("xx", 2^62)

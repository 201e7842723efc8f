-- ends with: Bytes
return loadstring(string.rep("(",5e6))

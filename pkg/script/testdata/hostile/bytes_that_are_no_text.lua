-- ends with: Output
return "\0\255" .. ("\0"):rep(3)

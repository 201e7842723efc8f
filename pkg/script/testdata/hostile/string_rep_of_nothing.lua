-- ends with: Output
return string.rep("", 1e18)

-- ends with: Output
return {x = 1 / 0}

-- ends with: Output
return {x = 0 / 0}

-- ends with: Output
return {1, a = 2}

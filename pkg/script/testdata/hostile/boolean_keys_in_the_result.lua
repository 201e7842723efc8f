-- ends with: Output
return {[true] = 1}

-- ends with: Output
return {x=2^53+1}

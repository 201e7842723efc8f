-- ends with: Output
return {x = print}

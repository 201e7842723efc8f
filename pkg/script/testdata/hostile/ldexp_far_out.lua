-- ends with: Output
return {math.ldexp(1,2^40)}

-- ends with: Output
return {("x"):sub(2^63,-2^63),("x"):byte(2^63),("x"):rep(-2^63),tostring(2^63)}

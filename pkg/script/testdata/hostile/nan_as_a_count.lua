-- ends with: Output
return {("x"):rep(0/0),("abc"):sub(0/0,0/0)}

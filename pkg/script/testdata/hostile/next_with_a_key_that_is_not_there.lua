-- ends with: Output
return next({a=1},"b")

-- ends with: Steps
return (("("):rep(100000)):find("%b()")

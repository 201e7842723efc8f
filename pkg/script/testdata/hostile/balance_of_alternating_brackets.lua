-- ends with: Steps
return (("()("):rep(80000)):gsub("%b()","x")

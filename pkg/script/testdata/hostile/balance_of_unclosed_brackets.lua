-- ends with: Steps
return (("("):rep(250000)):gsub("%b()","")

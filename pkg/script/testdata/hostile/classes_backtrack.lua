-- ends with: Steps
return (("1"):rep(3000)):find(("%d*"):rep(12).."%a")

-- ends with: Steps
return (("m"):rep(3000)):match(("[a-zA-Z0-9_]-"):rep(10).."%.")

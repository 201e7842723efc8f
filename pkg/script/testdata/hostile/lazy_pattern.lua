-- ends with: Steps
return (("a"):rep(5000)):match(".-.-.-.-b")

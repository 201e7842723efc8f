-- ends with: Steps
return (("a"):rep(2000)):find(("(a*)"):rep(20).."b")

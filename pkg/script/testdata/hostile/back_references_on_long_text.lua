-- ends with: Steps
return (("x"):rep(200000)):find("(.-)%1b")

-- ends with: Steps
return (("x"..(" "):rep(3000)):rep(30)):match("^(.-)%s*$")

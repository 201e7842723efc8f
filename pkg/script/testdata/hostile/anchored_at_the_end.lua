-- ends with: Steps
return (("a"):rep(200000).."b"):find("a*a*a*a*$")

-- ends with: Steps
return (("a"):rep(100000).."b"):find("(a*)%1%1%1c")

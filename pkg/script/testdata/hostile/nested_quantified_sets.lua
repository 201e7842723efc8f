-- ends with: Steps
return (("ab"):rep(2000)):match(("[ab]*"):rep(15).."c")

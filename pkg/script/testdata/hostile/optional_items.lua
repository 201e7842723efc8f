-- ends with: Steps
return (("a"):rep(30)):match(("a?"):rep(30) .. ("a"):rep(31))

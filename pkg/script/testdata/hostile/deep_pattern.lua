-- ends with: Runtime
return (("a"):rep(1000)):match(("a?"):rep(1000))

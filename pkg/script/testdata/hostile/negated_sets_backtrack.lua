-- ends with: Steps
return (("x"):rep(3000)):match(("[^y]-"):rep(10).."y")

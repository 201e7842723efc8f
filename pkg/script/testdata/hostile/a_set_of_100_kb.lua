-- ends with: Steps
return (("a"):rep(1000)):find("[" .. ("b"):rep(100000) .. "]c")

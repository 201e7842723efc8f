-- ends with: Steps
return (("a"):rep(300)):match(("a-"):rep(12) .. "b")

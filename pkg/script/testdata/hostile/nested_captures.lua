-- ends with: Runtime
return ("x"):match(("("):rep(100) .. "x" .. (")"):rep(100))

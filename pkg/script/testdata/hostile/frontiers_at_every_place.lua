-- ends with: Steps
return (("a "):rep(120000)):gsub("%f[%a]%f[%a]%f[%a]a-b","x")

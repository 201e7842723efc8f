-- ends with: Steps
return ("a\0b"):rep(50000):find("\0-\0-\0-x")

-- ends with: Runtime
return json.decode(("["):rep(100000))

-- ends with: Bytes
return json.decode("[" .. ("[],"):rep(80000) .. "1]")

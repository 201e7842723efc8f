-- ends with: Bytes
return table.concat({1, 2, 3, 4, 5}, ("x"):rep(100000))

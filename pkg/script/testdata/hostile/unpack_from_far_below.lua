-- ends with: Runtime
return unpack({1,2,3},-2^40,3)

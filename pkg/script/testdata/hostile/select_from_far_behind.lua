-- ends with: Runtime
return select(-2^31, 1)

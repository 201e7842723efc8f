-- ends with: Runtime
assert(nil,{})

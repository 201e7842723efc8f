-- ends with: Runtime
error({})

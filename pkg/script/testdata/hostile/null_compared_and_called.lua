-- ends with: Runtime
json.null()

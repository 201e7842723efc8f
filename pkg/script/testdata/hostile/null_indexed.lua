-- ends with: Runtime
return json.null.x

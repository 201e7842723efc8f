-- ends with: Runtime
return json.encode({f=print})

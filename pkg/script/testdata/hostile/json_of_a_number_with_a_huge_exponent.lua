-- ends with: Runtime
return json.decode("1e999999999")

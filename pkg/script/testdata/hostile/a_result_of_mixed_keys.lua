-- ends with: Output
obj.data.spec.http.x=1 return obj.data

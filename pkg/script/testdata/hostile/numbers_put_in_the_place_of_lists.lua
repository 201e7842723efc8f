-- ends with: Output
obj.data.spec.http=0/0 return obj.data

-- ends with: Output
obj.data.spec.http[5]=1 return obj.data

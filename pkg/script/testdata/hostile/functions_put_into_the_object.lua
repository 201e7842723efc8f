-- ends with: Output
obj.data.spec.http=print return obj.data

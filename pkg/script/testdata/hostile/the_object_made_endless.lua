-- ends with: Output
obj.data.spec.http[1]=obj return obj.data

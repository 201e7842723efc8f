-- ends with: Output
for k in pairs(obj) do obj[k]=nil end return obj.data

-- ends with: Runtime
return table.concat({},"",-2^31,2^31)

-- ends with: Runtime
return select("#",string.byte(string.rep("x",2e5),1,-1))

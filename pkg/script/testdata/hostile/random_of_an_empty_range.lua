-- ends with: Runtime
return math.random(2,1)

-- ends with: Runtime
return math.random(0)

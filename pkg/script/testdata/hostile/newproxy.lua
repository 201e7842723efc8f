-- ends with: Runtime
newproxy(true)

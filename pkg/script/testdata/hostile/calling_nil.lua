-- ends with: Runtime
nothing()

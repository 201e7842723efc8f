-- ends with: Runtime
table.insert({}, 6e7, 1)

-- ends with: Runtime
return {tonumber("z",37)}

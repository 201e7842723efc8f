-- ends with: Runtime
return string.format("%#v %p",{})

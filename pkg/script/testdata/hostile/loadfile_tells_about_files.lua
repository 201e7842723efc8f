-- ends with: Runtime
local f,e=loadfile("/etc/passwd") return tostring(e)

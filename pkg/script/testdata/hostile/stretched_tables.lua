-- ends with: Steps
local t = {} for i = 1, 16000 do local u = {} u[16000] = 1 t[i] = u end

-- ends with: Steps
local t = {} for i = 1, 16000 do local u, v = {}, {} u[16000], v[16000] = 1, 2 t[i] = {u, v} end

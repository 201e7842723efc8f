-- ends with: Steps
local t = {} for i = 1, 16000 do t[i] = {[16000] = 1} end

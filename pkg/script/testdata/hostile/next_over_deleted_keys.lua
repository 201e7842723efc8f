-- ends with: Steps
local t = {} for i = 1, 1500 do t["k" .. i] = i end while next(t) do t[next(t)] = nil end

-- ends with: Steps
for i=1,1e9 do pcall(function() return (i):x() end) end

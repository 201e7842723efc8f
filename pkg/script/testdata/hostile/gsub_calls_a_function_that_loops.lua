-- ends with: Steps
("abc"):gsub(".", function() while true do end end)

-- ends with: Steps
::top:: for i=1,10 do for j=1,10 do if j==5 then goto top end end end

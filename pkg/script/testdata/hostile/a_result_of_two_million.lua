-- ends with: Steps
local t={} for i=1,2e6 do t[i]="xxxxxxxxxxxxxxxxxxxx" end return t

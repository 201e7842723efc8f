-- ends with: a value
for i=1,10,0/0 do end return {spec={}}

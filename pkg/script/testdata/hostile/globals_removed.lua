-- ends with: Output
pairs=nil ipairs=nil string=nil table=nil next=nil type=nil error=nil obj=nil tostring=nil return {}

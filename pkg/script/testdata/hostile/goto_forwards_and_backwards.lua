-- ends with: Steps
::a:: do goto b end ::b:: goto a

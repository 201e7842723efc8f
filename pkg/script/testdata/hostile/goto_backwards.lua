-- ends with: Steps
::a:: goto a

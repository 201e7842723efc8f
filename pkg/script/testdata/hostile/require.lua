-- ends with: Runtime
require("os")

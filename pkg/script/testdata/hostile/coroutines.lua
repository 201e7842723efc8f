-- ends with: Runtime
coroutine.wrap(function() end)()

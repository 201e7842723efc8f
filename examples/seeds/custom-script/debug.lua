-- restored: one closing brace too many stood after stableService, and the script itself was left to the reader
obj = { canaryWeight = -1, stableWeight = 101,
	matches = { { headers = { { value = "demo", type = "Exact", name = "destination" } } } },
	canaryService = "mocka", stableService = "mocka",
	data = {
		spec = { subsets = { { labels = { version = "base" }, name = "version-base" } },
			trafficPolicy = { loadBalancer = { simple = "ROUND_ROBIN" } }, host = "svc-a" } } }
spec = obj.data.spec
return obj.data

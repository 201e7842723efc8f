-- restored: "end" of the loop, and "t" before table.insert, which the English print has
local spec = obj.data.spec -- the spec of the object; obj.data is its state
local canary = {} -- the subset for the new version
canary.labels = {}
canary.name = "canary"
for k, v in pairs(obj.patchPodMetadata.labels) do
	canary.labels[k] = v -- with the labels of the new pods
end
table.insert(spec.subsets, canary)
return obj.data

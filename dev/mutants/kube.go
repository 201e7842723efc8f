package main

// stubborn mutants act on outdated observations.
func stubborn() []mutant {
	return []mutant{
		{"routes that a watch has shown count as read live", []edit{{
			"pkg/kube/confirm.go", "on[partRoutes] = on[partRoutes] && g.confirmedLive", "on[partRoutes] = on[partRoutes] || g.confirmedLive",
		}}, unit("kube", "TestRoutesAreLiveOnlyTogether")},
		{"a stored original is deleted before the object has it back", []edit{{
			"pkg/kube/gateway_original.go", "\tif err := c.writeRoute(ctx, g, a, traffic.ReferToOriginal(restored, g.storedIn)); err != nil {\n\t\treturn err\n\t}\n", "",
		}}, world("kube", "TestAStoredOriginalOutlivesARestoreThatIsCutShort")},
	}
}

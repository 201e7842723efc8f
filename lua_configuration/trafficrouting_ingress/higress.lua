-- Routes by a canary Ingress of Higress, which takes the annotations of
-- ingress-nginx: see rollout.ingress.canary.

return rollout.ingress.canary("nginx.ingress.kubernetes.io/")

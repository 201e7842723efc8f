// A stand-in for the module by which Prometheus reaches Google Cloud, without Google's clients and gRPC.
module google.golang.org/api

go 1.26.0

require golang.org/x/oauth2 v0.37.0

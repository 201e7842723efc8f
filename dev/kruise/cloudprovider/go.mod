// A stand-in for the library of cloud providers, of which the validation of pods takes the number of a port. That package of options brings
// the API server along, which would be half of the build.
module k8s.io/cloud-provider

go 1.26.0

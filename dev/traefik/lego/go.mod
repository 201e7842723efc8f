// A stand-in for lego, by which Traefik asks for certificates: without its clients of a hundred and sixty providers of DNS, which would be
// most of the build, and without an answer.
module github.com/go-acme/lego/v5

go 1.26.0

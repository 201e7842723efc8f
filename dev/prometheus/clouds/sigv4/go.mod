// A stand-in for the module by which Prometheus signs requests to AWS, without the AWS SDK.
module github.com/prometheus/sigv4

go 1.26.0

// A stand-in for the client of Systems Manager by which Traefik looks for tasks of ECS.
module github.com/aws/aws-sdk-go-v2/service/ssm

go 1.26.0

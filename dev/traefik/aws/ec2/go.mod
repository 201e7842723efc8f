// A stand-in for the client of EC2 by which Traefik looks for tasks of ECS: half a minute of the build.
module github.com/aws/aws-sdk-go-v2/service/ec2

go 1.26.0

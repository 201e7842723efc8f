// A stand-in for the module by which Prometheus gets tokens of Azure, without Microsoft's clients.
module github.com/Azure/azure-sdk-for-go/sdk/azidentity

go 1.26.0

require github.com/Azure/azure-sdk-for-go/sdk/azcore v0.0.0

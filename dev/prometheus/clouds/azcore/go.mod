// A stand-in for the module by which Prometheus gets tokens of Azure, with the types that it names.
module github.com/Azure/azure-sdk-for-go/sdk/azcore

go 1.26.0

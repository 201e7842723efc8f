// Package cloudprovider has no clouds.
package cloudprovider

// Interface is a cloud.
type Interface interface{}

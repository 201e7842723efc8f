// Package ssm is a client that finds no machines.
package ssm

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// Client refuses all requests.
type Client struct{}

// NewFromConfig returns a client.
func NewFromConfig(any) *Client { return &Client{} }

// DescribeInstanceInformationInput selects machines.
type DescribeInstanceInformationInput struct {
	Filters []types.InstanceInformationStringFilter
}

// DescribeInstanceInformationOutput is a page of an answer.
type DescribeInstanceInformationOutput struct {
	InstanceInformationList []types.InstanceInformation
}

// DescribeInstanceInformationPaginator has no pages.
type DescribeInstanceInformationPaginator struct{}

// NewDescribeInstanceInformationPaginator returns a paginator without pages.
func NewDescribeInstanceInformationPaginator(*Client, *DescribeInstanceInformationInput) *DescribeInstanceInformationPaginator {
	return &DescribeInstanceInformationPaginator{}
}

// HasMorePages is false.
func (*DescribeInstanceInformationPaginator) HasMorePages() bool { return false }

// NextPage refuses.
func (*DescribeInstanceInformationPaginator) NextPage(context.Context) (*DescribeInstanceInformationOutput, error) {
	return nil, errors.ErrUnsupported
}

// Package ec2 is a client that finds no instances.
package ec2

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Client refuses all requests.
type Client struct{}

// NewFromConfig returns a client.
func NewFromConfig(any) *Client { return &Client{} }

// DescribeInstancesInput names instances.
type DescribeInstancesInput struct{ InstanceIds []string }

// DescribeInstancesOutput is a page of an answer.
type DescribeInstancesOutput struct{ Reservations []types.Reservation }

// DescribeInstancesPaginator has no pages.
type DescribeInstancesPaginator struct{}

// NewDescribeInstancesPaginator returns a paginator without pages.
func NewDescribeInstancesPaginator(*Client, *DescribeInstancesInput) *DescribeInstancesPaginator {
	return &DescribeInstancesPaginator{}
}

// HasMorePages is false.
func (*DescribeInstancesPaginator) HasMorePages() bool { return false }

// NextPage refuses.
func (*DescribeInstancesPaginator) NextPage(context.Context) (*DescribeInstancesOutput, error) {
	return nil, errors.ErrUnsupported
}

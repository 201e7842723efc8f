// Package kill proves that executors may die at any moment. It holds tests only. They show that the next run repairs
// the state after a crash at any point.
package kill

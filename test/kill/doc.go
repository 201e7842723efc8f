// Package kill proves that executors may die at any moment. It holds tests only. They show that the next run heals
// what a crash left, at whatever point it came.
package kill

// Package kill proves that executors may die at any moment. It holds tests only; what they prove is architecture's law that a
// crash at any point is healed by running again.
package kill

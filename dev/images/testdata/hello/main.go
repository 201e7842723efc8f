// Command hello is a small program for the tests of the images.
package main

import "fmt"

func main() { fmt.Println("hello") }

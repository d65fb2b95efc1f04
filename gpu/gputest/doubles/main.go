// Command doubles puts the doubles of the GPU libraries into a directory, for use
// by hand on a machine without a GPU. See package gputest.
package main

import (
	"fmt"
	"os"

	"github.com/sealstone/sealstone/gpu/gputest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: doubles DIRECTORY")
		os.Exit(2)
	}
	dir := os.Args[1]
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = gputest.Compile(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("libcuda.so.1, libcufile.so.0 and libnvidia-ml.so.1 are in %s\n", dir)
}

// Command sealstone works on Sealstone stores from outside an inference
// engine: it demonstrates and measures them, and looks into closed ones.
package main

import (
	"os"

	"github.com/sealstone/sealstone/tools/sealstone/internal/cli"
)

// version is set by the linker to the release.
var version string

func main() {
	os.Exit(cli.Main(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Command memgauge records the memory of AI training jobs and answers questions about it.
package main

import (
	"os"

	"github.com/memgauge/memgauge/internal/faces/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

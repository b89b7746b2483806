// Command gen writes the rules of package secret as a Python module, for the agent.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/memgauge/memgauge/internal/base/secret"
)

func main() {
	py := flag.String("py", "", "Python module to write")
	flag.Parse()
	if err := os.WriteFile(*py, secret.Python(), 0o644); err != nil {
		log.Fatal(err)
	}
}

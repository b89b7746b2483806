// Command sources packs memgauge's Python into python/sources.zst, which a program built with -tags packed carries.
// scripts/release runs it; nothing else needs that file, and git leaves it out.
package main

import (
	"log"
	"os"

	"github.com/memgauge/memgauge/python"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sources: ")
	files, err := python.Read(os.DirFS("python"))
	if err != nil {
		log.Fatal(err)
	}
	packed, err := python.Pack(files)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("python/sources.zst", packed, 0o644); err != nil {
		log.Fatal(err)
	}
}

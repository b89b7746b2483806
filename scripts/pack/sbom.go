package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func (r release) sbom() error {
	bom, err := r.bom()
	if err != nil {
		return err
	}
	return os.WriteFile(r.stem()+".cdx.json", bom, 0o644)
}

// bom lists what is linked into the command, as CycloneDX. Go writes its modules into every binary; DuckDB and the C++
// runtime are archives inside of them.
func (r release) bom() ([]byte, error) {
	info, err := buildinfo.ReadFile(filepath.Join(r.Bin, "memgauge"))
	if err != nil {
		return nil, fmt.Errorf("read what the binary is made of: %w", err)
	}
	parts := []cdx.Component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/stdlib@%s")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := library(m.Path, m.Version, "pkg:golang/"+m.Path+"@%s")
		part.Properties = &[]cdx.Property{{Name: "golang:h1", Value: m.Sum}}
		parts = append(parts, part)
		if version := duckdb(m.Path, m.Version); version != "" {
			parts = append(parts, library("duckdb", version, "pkg:github/duckdb/duckdb@v%s"))
		}
	}
	if r.Runtime != "" {
		parts = append(parts, library("libstdc++", r.Runtime, "pkg:generic/gcc@%s"))
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.Time.Format(time.RFC3339), Component: &cdx.Component{
		BOMRef: "memgauge", Type: cdx.ComponentTypeApplication, Name: "memgauge", Version: r.Version,
		PackageURL: "pkg:pypi/memgauge@" + r.Version,
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}}
	bom.Components = &parts
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("write the SBOM: %w", err)
	}
	return b.Bytes(), nil
}

func library(name, version, url string) cdx.Component {
	url = fmt.Sprintf(url, version)
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url}
}

var compiled = regexp.MustCompile(`^github\.com/duckdb/duckdb-go-bindings/lib/`)

// duckdb is the version of DuckDB whose archives a module holds: v0.10504.0 has 1.5.4.
func duckdb(path, version string) string {
	var number int
	if n, err := fmt.Sscanf(version, "v0.%d.", &number); n != 1 || err != nil || !compiled.MatchString(path) {
		return ""
	}
	return strings.Join([]string{strconv.Itoa(number / 10000), strconv.Itoa(number / 100 % 100),
		strconv.Itoa(number % 100)}, ".")
}

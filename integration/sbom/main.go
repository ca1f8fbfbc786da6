// Command sbom writes the software bill of materials of Go programs, as CycloneDX in
// JSON: what each was really linked from, as the program itself says.
//
//	go run -C integration ./sbom ../bin/hap-worker > hap-worker.cdx.json
package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write writes the bill of a program. It says nothing of where or when it was built,
// so that the same program has the same bill.
func write(program string, to io.Writer) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	return cyclonedx.NewBOMEncoder(to, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(billOf(filepath.Base(program), info))
}

func billOf(name string, info *debug.BuildInfo) *cyclonedx.BOM {
	main := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, Name: name, Version: info.Main.Version,
		BOMRef: reference(info.Main), PackageURL: reference(info.Main),
	}
	components := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, BOMRef: "pkg:golang/std@" + info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	needed := []string{components[0].BOMRef}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
			BOMRef: reference(*module), PackageURL: reference(*module),
			Properties: &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}},
		})
		needed = append(needed, reference(*module))
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needed}}
	return bom
}

// reference is a module's package URL.
func reference(m debug.Module) string { return "pkg:golang/" + m.Path + "@" + m.Version }

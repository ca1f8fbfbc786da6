// Command release signs the files of a release and their provenance, and verifies both.
//
//	go run -C integration ./release sign --dir DIR --key KEY --commit SHA
//	go run -C integration ./release verify --dir DIR --public KEY
//	go run -C integration ./release krew --dir DIR --version v1.2.3
//
// krew packs each hapctl as kubectl-hap, and writes the manifest with which krew installs it.
//
// sign adds SHA256SUMS, provenance.intoto.json (a SLSA provenance in a DSSE envelope), and for each file a
// signature in FILE.sig, in the format of cosign verify-blob and openssl. deploy/release.sh runs it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `usage: release sign --dir DIR --key KEY --commit SHA [--builder URI]
       release verify --dir DIR --public KEY
       release krew --dir DIR --version VERSION [--url URL] [--license FILE]
`

var errUsage = errors.New("usage")

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dir := flags.String("dir", "", "")
	key := flags.String("key", "", "")
	public := flags.String("public", "", "")
	commit := flags.String("commit", "", "")
	builder := flags.String("builder", "https://github.com/hap-worker/hap-worker/blob/main/deploy/release.sh", "")
	version := flags.String("version", "", "")
	url := flags.String("url", "", "")
	license := flags.String("license", "../LICENSE", "")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 || *dir == "" {
		return errUsage
	}
	switch {
	case args[0] == "sign" && *key != "" && *commit != "":
		return sign(ctx, *dir, *key, origin{commit: *commit, builder: *builder}, out)
	case args[0] == "verify" && *public != "":
		return verify(ctx, *dir, *public, out)
	case args[0] == "krew" && *version != "":
		return krew(*dir, *version, cmp.Or(*url, source+"/releases/download/"+*version), *license)
	}
	return errUsage
}

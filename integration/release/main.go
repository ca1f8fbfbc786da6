// Command release signs the files of a release and says where they come from, and
// verifies both.
//
//	go run -C integration ./release sign --dir DIR --key KEY --commit SHA
//	go run -C integration ./release verify --dir DIR --public KEY
//
// The files beside a release's own: SHA256SUMS, provenance.intoto.json (a SLSA provenance
// in a DSSE envelope), and for each file one with .sig behind its name, in the form that
// cosign verify-blob and openssl take. deploy/release.sh runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `usage: release sign --dir DIR --key KEY --commit SHA [--builder URI]
       release verify --dir DIR --public KEY
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
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 || *dir == "" {
		return errUsage
	}
	switch {
	case args[0] == "sign" && *key != "" && *commit != "":
		return sign(ctx, *dir, *key, origin{commit: *commit, builder: *builder}, out)
	case args[0] == "verify" && *public != "":
		return verify(ctx, *dir, *public, out)
	}
	return errUsage
}

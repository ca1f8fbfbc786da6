#!/usr/bin/env bash
# Makes a release in a folder that is empty or does not exist: the programs for each platform,
# a bill of materials for each, a krew manifest for kubectl hap with its archives, man pages, the images
# if IMAGES is 1, checksums, provenance, and signatures. docs/release.md says how they are verified.
#
#   KEY=release.pem deploy/release.sh DIR
#
# KEY is a private key of an elliptic curve, in PEM form; without one the release has neither
# signatures nor provenance, and the script says so. PLATFORMS (default linux/amd64 linux/arm64),
# TAG of the images, VERSION (default v0.0.0) and URL (where the files will be found) of the
# krew manifest, BUILDER (a URI that names who builds), SBOM (the tool), GO and DOCKER may be set.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
go=${GO:-go}
sbom=${SBOM:-github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0}

fail() { echo "release: $*" >&2; exit 1; }

[ $# -eq 1 ] || { echo "usage: deploy/release.sh DIR" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
[ -z "$(ls -A "$dir")" ] || fail "$dir is not empty"
cd "$root"
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || fail "the working tree differs from commit $commit: what is built would not be what the provenance says"
grep -qsx "$commit [^ ]* all" dist/release-check || fail "commit $commit has not passed make release-check: dist/release-check does not say so"

for platform in ${PLATFORMS:-linux/amd64 linux/arm64}; do
  for program in hap-worker hapctl; do
    file=$dir/$program-${platform/\//-}
    CGO_ENABLED=0 GOWORK=off GOOS=${platform%/*} GOARCH=${platform#*/} "$go" build -trimpath -ldflags='-s -w' -o "$file" "./cmd/$program"
    "$go" run "$sbom" bin -json -std -noserial -notimestamp -output "$file.cdx.json" "$file" 2> "$dir/.said" || { cat "$dir/.said" >&2; exit 1; }
  done
done
rm -f "$dir/.said"

# kubectl hap: a manifest for krew, with an archive for each platform.
"$go" run -C integration ./release krew --dir "$dir" --version "${VERSION:-v0.0.0}" ${URL:+--url "$URL"}

man=$(mktemp -d)
trap 'rm -rf "$man"' EXIT
HAP_MAN_PAGES=$man "$go" test -count=1 -run '^TestManPages$' ./cmd/hapctl/app
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$man" -cf - . | gzip -n > "$dir/hapctl-man.tar.gz"

if [ "${IMAGES:-}" = 1 ]; then
  for program in hap-worker hapctl; do
    TAG=${TAG:-dev} deploy/images.sh "$program"
    "${DOCKER:-docker}" save -o "$dir/$program-image.tar" "hap-worker/$program:${TAG:-dev}"
  done
fi

if [ -z "${KEY:-}" ]; then
  (cd "$dir" && sha256sum ./* | sed 's#  \./#  #' > SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
  echo "NOT SIGNED: KEY names no private key. The release has checksums, and neither signatures nor provenance." >&2
  exit
fi
"$go" run -C integration ./release sign --dir "$dir" --key "$(realpath "$KEY")" --commit "$commit" ${BUILDER:+--builder "$BUILDER"}

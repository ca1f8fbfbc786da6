#!/usr/bin/env bash
# Builds the images that docker-compose.yaml uses, without a registry: static Go
# programs, and Redis from this machine's package, each FROM scratch. Where a
# registry is reachable, `docker compose build` makes the same from deploy/Dockerfile.
#
#   deploy/images.sh [IMAGE…]     default: hap-worker hapctl kubeapi seed nats redis
#
# TAG (default dev) is their tag; GO and DOCKER name the programs.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tag=${TAG:-dev}
go=${GO:-go}
docker=${DOCKER:-docker}
user=65532
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "images: $*" >&2; }

# compile MODULE PACKAGE OUTPUT: one static program.
compile() {
  say "compiling $(basename "$3")"
  (cd "$1" && CGO_ENABLED=0 GOWORK=off "$go" build -trimpath -ldflags='-s -w' -o "$3" "$2")
}

# image NAME ENTRYPOINT: from what was put into $work/NAME. A directory named in
# owned/ belongs to the user who runs the program, and so do volumes mounted there.
image() {
  local name=$1 entrypoint=$2 dir=$work/$1
  mkdir -p "$dir/root" "$dir/owned/tmp"
  cat > "$dir/Dockerfile" <<DOCKERFILE
FROM scratch
COPY root/ /
COPY --chown=$user:$user owned/ /
USER $user:$user
ENTRYPOINT ["$entrypoint"]
DOCKERFILE
  "$docker" build --quiet --tag "hap-worker/$name:$tag" "$dir" > /dev/null
  say "built hap-worker/$name:$tag"
}

# certificates: the authorities that this machine trusts, for TLS to the outside.
certificates() {
  local bundle=/etc/ssl/certs/ca-certificates.crt
  if [ -r "$bundle" ]; then
    install -D -m 0644 "$bundle" "$work/$1/root$bundle"
  fi
}

# with_libraries NAME PROGRAM…: programs of this machine with the libraries that
# they load, each at the path where the loader looks for it.
with_libraries() {
  local dir=$work/$1/root program library
  shift
  for program in "$@"; do
    install -D -m 0755 "$(readlink -f "$program")" "$dir/usr/local/bin/$(basename "$program")"
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
      [ -e "$dir$library" ] || install -D -m 0755 "$(readlink -f "$library")" "$dir$library"
    done
  done
}

build() {
  local name=$1
  mkdir -p "$work/$name/root" "$work/$name/owned"
  case $name in
    hap-worker | hapctl)
      compile "$root" "./cmd/$name" "$work/$name/root/$name"
      certificates "$name"
      mkdir -p "$work/$name/owned/kube"
      image "$name" "/$name"
      ;;
    kubeapi)
      compile "$root/integration/kubeapi" . "$work/$name/root/kubeapi"
      mkdir -p "$work/$name/owned/data" "$work/$name/owned/kube"
      image "$name" /kubeapi
      ;;
    seed)
      compile "$root/integration" ./seed "$work/$name/root/seed"
      mkdir -p "$work/$name/owned/kube"
      image "$name" /seed
      ;;
    nats)
      compile "$root/integration" github.com/nats-io/nats-server/v2 "$work/$name/root/nats-server"
      compile "$root/integration" ./probe "$work/$name/root/probe"
      mkdir -p "$work/$name/owned/data"
      image "$name" /nats-server
      ;;
    redis)
      local server cli
      server=$(command -v redis-server) && cli=$(command -v redis-cli) || {
        say "redis: redis-server and redis-cli are not on PATH; install the distribution's package"
        return 1
      }
      with_libraries "$name" "$server" "$cli"
      mkdir -p "$work/$name/owned/data"
      image "$name" redis-server
      ;;
    *)
      say "no image $name: hap-worker hapctl kubeapi seed nats redis"
      return 2
      ;;
  esac
}

[ $# -gt 0 ] || set -- hap-worker hapctl kubeapi seed nats redis
for name in "$@"; do
  build "$name"
done

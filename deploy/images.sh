#!/usr/bin/env bash
# Builds the images that docker-compose.yaml and integration/containers use, without
# a registry: static Go programs, and Redis from this machine's package, each FROM
# scratch. With a registry, `docker compose build` builds those of docker-compose.yaml
# from deploy/Dockerfile, with the registry's Redis.
#
#   deploy/images.sh [IMAGE…]     default: hap-worker hapctl kubeapi seed nats redis
#                                 besides: gardenerapi lightapi blackhole
#
# TAG (default dev) is their tag; GO and DOCKER name the programs. What is compiled
# stays in the user's cache directory, and an image whose content is the same as
# before is not built again: with nothing changed it takes seconds.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tag=${TAG:-dev}
go=${GO:-go}
docker=${DOCKER:-docker}
user=65532
label=hap-worker.content
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hap-worker/images
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "images: $*" >&2; }

# compile MODULE PACKAGE OUTPUT [FLAG…]: one static program. go does not link again a
# program that is up to date in the cache; a lock keeps two builds of a program apart.
compile() {
  local module=$1 package=$2 output=$3 kept
  shift 3
  kept=$cache/$(basename "$output")
  (
    flock 9
    cd "$module"
    CGO_ENABLED=0 GOWORK=off "$go" build -trimpath -ldflags='-s -w' "$@" -o "$kept" "$package"
    cp "$kept" "$output"
  ) 9> "$kept.lock"
}

# image NAME ENTRYPOINT: from what was put into $work/NAME. A directory in owned/
# belongs to the user who runs the program, and so do new volumes mounted there.
image() {
  local name=$1 entrypoint=$2 dir=$work/$1 reference=hap-worker/$1:$tag content
  mkdir -p "$dir/root" "$dir/owned/tmp"
  cat > "$dir/Dockerfile" <<DOCKERFILE
FROM scratch
COPY root/ /
COPY --chown=$user:$user owned/ /
USER $user:$user
ENTRYPOINT ["$entrypoint"]
DOCKERFILE
  content=$(cd "$dir" && find . -printf '%p %m\n' -type f -exec sha256sum {} + | LC_ALL=C sort | sha256sum | cut -d' ' -f1)
  if [ "$("$docker" image inspect --format "{{index .Config.Labels \"$label\"}}" "$reference" 2> /dev/null)" = "$content" ]; then
    say "$reference is up to date"
    return
  fi
  # Not BuildKit: an engine without its plugin has only this builder.
  DOCKER_BUILDKIT=0 "$docker" build --quiet --label "$label=$content" --tag "$reference" "$dir" > /dev/null 2> "$work/said" || {
    cat "$work/said" >&2
    return 1
  }
  say "built $reference"
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
      [ -e "$cache/kubeapi" ] || say "kubeapi: its first build compiles Kubernetes and takes some minutes"
      compile "$root/integration/kubeapi" . "$work/$name/root/kubeapi" -buildvcs=false
      mkdir -p "$work/$name/owned/data" "$work/$name/owned/kube"
      image "$name" /kubeapi
      ;;
    gardenerapi)
      [ -e "$cache/gardenerapi" ] || say "gardenerapi: its first build compiles Gardener and takes some minutes"
      compile "$root/integration/gardenerapi" . "$work/$name/root/gardenerapi" -buildvcs=false
      mkdir -p "$work/$name/owned/data" "$work/$name/owned/kube"
      image "$name" /gardenerapi
      ;;
    seed)
      compile "$root/integration" ./seed "$work/$name/root/seed" -buildvcs=false
      mkdir -p "$work/$name/owned/kube"
      image "$name" /seed
      ;;
    nats)
      compile "$root/integration" github.com/nats-io/nats-server/v2 "$work/$name/root/nats-server" -buildvcs=false
      compile "$root/integration" ./probe "$work/$name/root/probe" -buildvcs=false
      mkdir -p "$work/$name/owned/data"
      image "$name" /nats-server
      ;;
    lightapi)
      compile "$root/integration" ./lightapi/serve "$work/$name/root/lightapi" -buildvcs=false
      mkdir -p "$work/$name/owned/kube"
      image "$name" /lightapi
      ;;
    blackhole)
      compile "$root/integration" ./blackhole "$work/$name/root/blackhole" -buildvcs=false
      image "$name" /blackhole
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
      say "no image $name: hap-worker hapctl kubeapi gardenerapi lightapi blackhole seed nats redis"
      return 2
      ;;
  esac
}

# A function, so that bash has read the whole file before it runs, even if the file is changed meanwhile.
main() {
  local name
  [ $# -gt 0 ] || set -- hap-worker hapctl kubeapi seed nats redis
  for name in "$@"; do
    build "$name"
  done
  exit
}
main "$@"

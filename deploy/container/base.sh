#!/bin/sh
# Makes the base image without a registry of images: a Debian 12 by debootstrap, from the sources of this machine.
# Usage: deploy/container/base.sh [NAME]   (root; debootstrap and buildah; NAME is debian:bookworm-slim without it)
set -eu

name=${1:-debian:bookworm-slim}
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/lowwater-base.XXXXXX")
trap 'rm -rf --one-file-system "$folder"' EXIT
mirror=$(apt-get indextargets --format '$(CODENAME) $(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
  awk '$1 == "bookworm" && $2 == "Debian" { print $3; exit }')

# In a mount namespace of its own, so that an end by Ctrl-C leaves no /proc mounted in there.
unshare --mount debootstrap --variant=minbase --include=ca-certificates bookworm "$folder" ${mirror:+"$mirror"}
rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/*
container=$(buildah from scratch)
buildah copy --quiet "$container" "$folder" /
buildah config --env PATH=/usr/sbin:/usr/bin:/sbin:/bin --cmd /bin/bash "$container"
buildah commit --quiet --rm "$container" "$name"

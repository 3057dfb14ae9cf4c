#!/bin/sh
# Runs README's two commands where nothing is installed: a fresh Debian 12 (Python 3.11.2) with python3, git,
# make and CA certificates, empty caches, and /tmp on a tmpfs, which lists folders in another order than ext4.
# Usage: tools/bare_debian.sh [COMMAND…]   each runs in a clone of HEAD, one after another until one fails.
# Needs root, and debootstrap, which apt brings. It asks the registries that this machine asks.
set -eu
cd "$(dirname "$0")/.."

RELEASE=bookworm
# What says how this machine reaches its registries; everything else of its environment stays outside.
HANDED_ON="http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY
  PIP_CONFIG_FILE PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_PROXY PIP_CERT PIP_DEFAULT_TIMEOUT PIP_RETRIES
  UV_DEFAULT_INDEX UV_INDEX UV_INDEX_URL UV_INSECURE_HOST UV_NATIVE_TLS UV_SYSTEM_CERTS UV_HTTP_TIMEOUT UV_CONFIG_FILE
  SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS JAVA_TOOL_OPTIONS
  NPM_CONFIG_REGISTRY npm_config_registry"

say() { printf 'bare Debian: %s\n' "$*" >&2; }

cannot() { # where nobody would read the line, it is a failure
  say "NOT RUN: $*"
  say "NOT RUN: README's two commands were not tried on a bare Debian 12"
  [ -z "${CI:-}" ] || exit 1
  exit 0
}

[ "$(id -u)" -eq 0 ] || cannot "it needs root (debootstrap, chroot)"
command -v apt-get >/dev/null 2>&1 || cannot "it needs apt-get"
apt-get update -qq >&2 || cannot "apt-get update failed"
command -v debootstrap >/dev/null 2>&1 ||
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null ||
  cannot "debootstrap cannot be installed"

[ $# -gt 0 ] || set -- "python3 tools/try_demo.py" "make test"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/lowwater-bare.XXXXXX")
unset TMPDIR # inside there is no such folder
root=$work/root
inside=
clean_up() {
  trap '' INT TERM HUP
  # Its first process dies with it and takes all others along, and their mounts go with their namespace.
  [ -z "$inside" ] || { kill -KILL "$inside" 2>/dev/null && wait "$inside"; } || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The machine's own sources of this release: the mirror comes from them, and the sources inside.
apt-get indextargets --format '$(CODENAME) $(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
  awk -v release="$RELEASE" '$2 == "Debian" && $1 ~ "^" release "(-updates|-security)?$" { print "deb", $3, $4, $5 }' |
  sort -u >"$work/sources.list"
mirror=$(awk -v release="$RELEASE" '$3 == release { print $2; exit }' "$work/sources.list")

quietly() { # what a failed step printed is shown
  "$@" >"$work/log" 2>&1 || {
    tail -n 30 "$work/log" >&2
    say "failed: $*"
    exit 1
  }
}

say "making it in $root"
quietly unshare --mount debootstrap --force-check-gpg --variant=minbase \
  --include=ca-certificates,git,make,python3 "$RELEASE" "$root" ${mirror:+"$mirror"}

hand_on() { # a file or folder of this machine, at the same place inside
  for path in "$@"; do
    [ ! -e "$path" ] || cp --recursive --dereference --parents "$path" "$root"
  done
}

[ -z "$mirror" ] || cp "$work/sources.list" "$root/etc/apt/sources.list"
apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/90machine"
hand_on /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/uv
for settings in .pip/pip.conf .config/pip .config/uv .m2/settings.xml .npmrc; do
  [ ! -e "$HOME/$settings" ] || (cd "$HOME" && cp --recursive --dereference --parents "$settings" "$root/root")
done
# Java's own store is made of these once it is installed; a certificate that somebody appended to
# the machine's bundle alone would not get into it.
awk -v into="$root/usr/local/share/ca-certificates/machine" \
  '/BEGIN CERTIFICATE/ { n++ } n { print > (into "-" n ".crt") }' /etc/ssl/certs/ca-certificates.crt
quietly chroot "$root" update-ca-certificates

git clone --quiet --no-hardlinks . "$root/root/lowwater"
say "$(chroot "$root" python3 --version), $(git log -1 --format='commit %h')"

# In a file that root alone reads, since a proxy's or an index's address may hold a password, and arguments are
# seen by everybody. Files that a value names come along.
umask 077
for name in $HANDED_ON; do
  value=$(printenv "$name") || continue
  printf "export %s='%s'\n" "$name" "$(printf %s "$value" | sed "s/'/'\\\\''/g")"
  [ ! -f "$value" ] || [ -e "$root$value" ] || hand_on "$value"
done >"$root/root/environment"
umask 022
printf '%s\n' "$@" >"$work/commands"

# Its shell stays the first process, as an init would: it buries orphans that nobody else waits for.
# It starts in the background, so that a signal finds this shell listening; Ctrl-C is made heard again.
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child sh -euc '
  root=$1 commands=$2
  mount --bind "$root" "$root" # as a machine has it: in a chroot alone no list of mounts names what / lies on
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  while read -r command; do
    began=$(date +%s) code=0
    printf "bare Debian: %s\n" "$command" >&2
    chroot "$root" env -i --default-signal=INT HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
      sh -c ". /root/environment && cd /root/lowwater && $command" </dev/null || code=$?
    printf "bare Debian: %s: exit code %s after %s s\n" "$command" "$code" "$(($(date +%s) - began))" >&2
    [ "$code" -eq 0 ] || exit 1
  done <"$commands"
' sh "$root" "$work/commands" &
inside=$!
code=0
wait "$inside" || code=$?
inside=
exit "$code"

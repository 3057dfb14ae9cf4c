#!/bin/sh
# Installs what `make` needs: the virtual environment, Java 17+, Pango (for PDF reports) and (for
# tests) Chromium. Usage: tools/install.sh [java] [pango] [chromium]. As root on Debian missing
# programs come by apt-get; anywhere else one line names the command to run. Does nothing when all is there already.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'install: %s\n' "$*" >&2; }

quietly() { # what a failed step printed is shown; a good one stays silent
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    say "failed: $*"
    exit 1
  fi
  rm -f "$log"
}

apt_updated=no
need() { # need NAME PACKAGE: end with one clear line unless apt can bring it
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    if [ "$apt_updated" = no ]; then
      say "updating the package lists"
      quietly apt-get update
      apt_updated=yes
    fi
    say "installing $2"
    quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2"
  else
    say "$1 is missing. Run: sudo apt-get install -y $2   (or your system's equivalent), then make again."
    exit 1
  fi
}

java_major() {
  program=java
  [ -z "${JAVA_HOME:-}" ] || program="$JAVA_HOME/bin/java"
  "$program" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  say "Python 3.11 or newer is needed; '$python' is not. Run: make PYTHON=python3.11 …"
  exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  need "Python's venv module" python3-venv
fi

# pip brings uv, and uv the rest: seconds where pip takes minutes. uv reads none of pip's settings, so an
# index that is named there is handed on; where uv cannot go, pip does it all.
install_pins() {
  sed -n '/^uv==/,/[^\\]$/p' requirements.txt >.venv/uv.txt
  quietly .venv/bin/python -m pip install --disable-pip-version-check --require-hashes -r .venv/uv.txt
  index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}}
  [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
  export VIRTUAL_ENV="$PWD/.venv"
  if .venv/bin/uv pip install --quiet --compile-bytecode --no-deps --require-hashes -r requirements.txt; then
    quietly .venv/bin/uv pip check
  else
    say "uv cannot install them (see above); pip does, in some minutes"
    quietly .venv/bin/python -m pip install --disable-pip-version-check --require-hashes -r requirements.txt
  fi
}

# A stamp of the pins: the environment is rebuilt in place when they change.
pins=$(cat requirements.txt pyproject.toml | cksum)
if [ ! -x .venv/bin/lowwater ] || [ "$(cat .venv/pins 2>/dev/null || true)" != "$pins" ]; then
  say "creating .venv from requirements.txt (about a minute)"
  "$python" -m venv .venv
  install_pins
  # Built by the setuptools of the pins, so that nothing comes without its hash.
  quietly .venv/bin/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation --editable .
  printf '%s\n' "$pins" >.venv/pins
fi

for wanted in "$@"; do
  case $wanted in
    java) major=$(java_major || true); [ "${major:-0}" -ge 17 ] || need "Java 17 or newer" default-jre-headless ;;
    pango)
      # WeasyPrint draws text with it; Debian's fonts come along. Without it all but PDFs works.
      if ! .venv/bin/python -c 'import weasyprint' >/dev/null 2>&1; then
        if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
          need "Pango" libpangoft2-1.0-0
          need "HarfBuzz" libharfbuzz-subset0
        else
          say "PDF reports need Pango: sudo apt-get install -y libpangoft2-1.0-0 (macOS: brew install pango)"
        fi
      fi
      ;;
    chromium)
      command -v chromium >/dev/null 2>&1 || need "Chromium" chromium
      # The browser's driver brings its own Node, which a bare Debian cannot load.
      .venv/bin/python -m playwright --version >/dev/null 2>&1 || need "libatomic" libatomic1
      ;;
    *) say "unknown: $wanted"; exit 1 ;;
  esac
done

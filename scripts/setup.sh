#!/bin/sh
# Make .venv with the named extras: `setup.sh gui` or `setup.sh gui,dev`.
# Quick when nothing changed: what was installed is remembered in .venv/installed-<extras>.
set -eu
cd "$(dirname "$0")/.."
extras=${1:-gui}
stamp=.venv/installed-$extras

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# PYTHON names one; else the first that is new enough.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11
    fi
    for name; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    fail "No Python 3.11 or newer among: $*. Install one, or name it: PYTHON=/path/to/python3 make"
}

# What: Debian packages. As root they are installed; anybody else gets the line to type.
need_packages() {
    [ -z "$*" ] && return
    command -v apt-get >/dev/null || fail "Please install what Debian calls: $*"
    [ "$(id -u)" = 0 ] || fail "Please type this once, then try again:
  sudo apt-get install -y $*"
    say "Installing system packages: $*"
    log=$(mktemp)
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y \
        --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        fail "apt-get could not install: $*"
    fi
    rm -f "$log"
}

python=$(find_python)

packages=
"$python" -c 'import ensurepip, venv' 2>/dev/null || packages="python3-venv"
if [ "$(uname -s)" = Linux ]; then
    display=--virtual-display
    [ "$extras" = gui ] && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && display=
    packages="$packages $("$python" -m napari_ctvqa._libraries $display)"
fi
# Word splitting wanted: a list of package names.
# shellcheck disable=SC2086
need_packages $packages
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python cannot make virtual environments: install its venv module."

wanted="$(cksum <pyproject.toml) $("$python" -c 'import sys; print(sys.version)' | tr '\n' ' ') $PWD"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

say "Setting up .venv with [$extras]: a few minutes the first time."
.venv/bin/python -c 'import pip' 2>/dev/null || "$python" -m venv --clear .venv
mkdir -p "$HOME"  # may lie in .venv, see the Makefile
pip() { .venv/bin/python -m pip "$@" -qq --disable-pip-version-check; }
pip install --editable .

# While pip fetches what the extras name: bytecode, and the demo case in the user's cache, so that
# the first picture comes at once.
{
    .venv/bin/python -m compileall -q napari_ctvqa
    .venv/bin/python -c 'from napari_ctvqa.demo import ensure_demo; ensure_demo()'
} &
making=$!
pip install "napari-ctvqa[$extras]"
touch .venv/pip-ended
wait "$making"
printf '%s' "$wanted" >"$stamp"

#!/bin/sh
# `make demo`: set up, then open the demo; without a display leave its picture as demo.png.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh gui

if [ "$(uname -s)" != Linux ] || [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    exec .venv/bin/python -m napari_ctvqa demo
fi
sh scripts/on_virtual_display.sh .venv/bin/python -m napari_ctvqa demo --out demo.png
printf 'There is no display here, so the first screen was pictured: %s\n' "$PWD/demo.png"

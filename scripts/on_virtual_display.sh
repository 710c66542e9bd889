#!/bin/sh
# Run a command on a virtual display the size of a laptop's, with OpenGL in software.
set -eu
[ "$(uname -s)" = Linux ] || exec "$@"
unset WAYLAND_DISPLAY
export QT_QPA_PLATFORM=xcb LIBGL_ALWAYS_SOFTWARE=1
exec xvfb-run --auto-servernum --server-args "-screen 0 1366x768x24" "$@"

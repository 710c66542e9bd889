#!/bin/bash
# Try the two commands of the README on a bare Debian: a chroot with Python, git and make, nothing
# else. Needs root, debootstrap and git. It inherits this machine's package-index settings (pip's
# and apt's files, their variables, the certificates), and no other part of its environment.
#
#   scripts/clean_debian.sh [FOLDER]
#
# FOLDER (default: a new one below /tmp) keeps the bare system for the next time, as FOLDER/bare,
# and gets times.txt, the logs and demo.png. What is tried is the last commit, cloned to a path
# with a space. NAPARI_CTVQA_REAL_DATA, or ../shared/data, is seen inside, read-only.
# SUITE and MIRROR choose another Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
repo=$PWD
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
work=$(realpath -m "${1:-$(mktemp -d /tmp/clean-debian.XXXXXX)}")
root=$work/root
home="/home/new user"
clone="$home/napari ctvqa"
real=${NAPARI_CTVQA_REAL_DATA:-$([ -d ../shared/data ] && realpath ../shared/data || true)}

[ "$(id -u)" = 0 ] || { echo "This makes a chroot, which only root may do." >&2; exit 1; }
mkdir -p "$work"
: >"$work/times.txt"

if [ ! -e "$work/bare/usr/bin/make" ]; then
    echo "debootstrap $suite into $work/bare"
    debootstrap --variant=minbase --include=python3,python3-venv,git,make,ca-certificates \
        "$suite" "$work/bare" "$mirror" >"$work/debootstrap.log"
fi
rm -rf --one-file-system "$root"
cp -a "$work/bare" "$root"

inherit() {  # each PATH of this machine that exists, to the same PATH or the one after a colon
    for pair; do
        from=${pair%%:*} to=$root${pair##*:}
        [ -e "$from" ] || continue
        mkdir -p "$(dirname "$to")"
        cp -rLT "$from" "$to"
    done
}
inherit /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/xdg/pip /etc/apt/apt.conf.d \
    /etc/apt/auth.conf.d /etc/ssl/certs/ca-certificates.crt "$HOME/.config/pip:$home/.config/pip"
[ "$suite" != "$(. /etc/os-release && echo "$VERSION_CODENAME")" ] || {
    : >"$root/etc/apt/sources.list"
    inherit /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/keyrings /usr/share/keyrings
}
mkdir -p "$root$home/shared/data"
git clone --quiet --no-hardlinks "$repo" "$root$clone"

# Run a shell line in the chroot, in the clone. The mounts live in a namespace of their own and
# end with it. Variables: only those that say where packages come from.
inside() {
    mapfile -t kept < <(env | grep -iE '^(PIP_|SSL_CERT|REQUESTS_CA|CURL_CA|(https?|no|all)_proxy=)')
    unshare --mount --pid --fork --propagation private bash -euc '
        root=$1 real=$2 shared=$3; shift 3
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/tmp"
        mount -t tmpfs tmpfs "$root/dev/shm"
        if [ -n "$real" ]; then mount --bind -o ro "$real" "$root$shared"; fi
        exec chroot "$@"' _ "$root" "$real" "$home/shared/data" \
        $2 "$root" env -i "${kept[@]}" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        HOME="$home" ${CI:+CI="$CI"} bash -c "cd '$clone' && $1"
}

timed() {  # NAME, LINE
    local begin=$EPOCHREALTIME code=0
    inside "$2" "" >"$work/$1.log" 2>&1 </dev/null || code=$?
    printf '%-16s %7.1f s  exit %d\n' "$1" "$(bc <<<"$EPOCHREALTIME - $begin")" "$code" |
        tee -a "$work/times.txt"
    [ "$code" = 0 ] || { tail -n 40 "$work/$1.log" >&2; exit 1; }
}

# Somebody who may not install packages is told the one line to type.
if inside "make demo" --userspec=65534:65534 >"$work/not-root.log" 2>&1; then
    echo "make demo passed without the system packages?" >&2
    exit 1
fi
grep -F 'sudo apt-get install -y' "$work/not-root.log"

timed demo "NAPARI_CTVQA_TIMES=.venv/moments make demo"
# From pip's end: the set-up's last steps, the libraries, the window, the first frame with the CT
# (the first picture: at most 5 s on two cores without other work), all of it, and its file.
since_pip() {  # NAME, SECONDS SINCE 1970
    local seconds
    seconds=$(bc <<<"$2 - $(stat -c %.3Y "$root$clone/.venv/pip-ended")")
    printf '%-16s %7.1f s after pip\n' "$1" "$seconds" | tee -a "$work/times.txt"
}
since_pip "set up" "$(stat -c %.3Y "$root$clone/.venv/installed-gui")"
while read -r at moment; do since_pip "$moment" "$at"; done <"$root$clone/.venv/moments"
since_pip demo.png "$(stat -c %.3Y "$root$clone/demo.png")"
cp "$root$clone/demo.png" "$work/demo.png"
timed demo-again "make demo"
timed test ".ci/run"
timed setup-again "make setup"
grep -E '^(=+ )?[0-9]+ (passed|failed)' "$work/test.log" | tee -a "$work/times.txt"
echo "Pictures and logs: $work"

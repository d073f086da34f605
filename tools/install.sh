# shellcheck shell=bash
# One of ./gradwire's files: install.

install_help() {
    cat <<'HELP'
./gradwire install [--prefix DIR]

  --prefix DIR   where to (/usr/local): DIR/bin has the programs, DIR/share/gradwire examples and documentation;
                 both are replaced

DESTDIR=ROOT in the environment puts all of it below ROOT, for makers of packages. Nothing else is written, and an installed
gradwire writes nothing there, so other users may run it. As root, the program is built as the user who has the source tree.
To remove it: rm -r DIR/bin/gradwire DIR/bin/gradwire-* DIR/share/gradwire
HELP
}

install_parse() { # sets prefix
    while [[ $# -gt 0 ]]; do
        case $1 in
        --help | -h)
            install_help
            exit 0
            ;;
        --prefix=*) prefix=${1#*=} ;;
        --prefix)
            [[ $# -gt 1 ]] || die 2 "--prefix wants a folder"
            prefix=$2
            shift
            ;;
        *) die 2 "install: $1: no such flag; install --help lists them" ;;
        esac
        shift
    done
    prefix=${prefix/#\~\//$HOME/} # the shell leaves it in --prefix=~/.local
    [[ -n $prefix ]] || die 2 "--prefix wants a folder"
    prefix=$(realpath -ms "$prefix")
}

# A folder that is there and may be written to, or can be made.
install_may_write() { # FOLDER
    local at=$1
    while [[ ! -e $at ]]; do at=$(dirname "$at"); done
    if ! [[ -d $at && -w $at && -x $at ]] || ! (umask 022 && mkdir -p "$1" 2>/dev/null); then
        die 1 "install: $at is no folder that $(id -un) may write to; run it with sudo, or give another --prefix, such as ~/.local"
    fi
}

# As root for the user who has the build, or else the source tree: it can be built without sudo afterwards.
install_build() {
    local owner group
    read -r owner group < <(stat -c '%u %g' "$ROOT/build" 2>/dev/null || stat -c '%u %g' "$ROOT")
    if [[ $EUID -eq 0 && $owner -ne 0 ]]; then
        HOME=$(getent passwd "$owner" | cut -d: -f6) setpriv --reuid="$owner" --regid="$group" --clear-groups \
            "$ROOT/gradwire" build
    else
        build release "${PROGRAMS[@]}"
    fi
}

install_all() {
    local prefix=/usr/local below said
    install_parse "$@"
    below=${DESTDIR:-}$prefix
    install_may_write "$below/bin"
    install_may_write "$below/share/gradwire"
    install_build
    rm -rf "$below/share/gradwire/docs" "$below/share/gradwire/examples" # files that a newer version no longer has
    umask 022 # of the folders; files have modes of their own
    said=$(cmake --install "$ROOT/build" --prefix "$prefix" 2>&1) || die 1 "install: $(tail -n 3 <<<"$said")"
    rm -f "$ROOT"/build/install_manifest*.txt # root's would be in the way of the next one
    say "installed $below/bin/gradwire, with gradwire-launch, gradwire-ps and gradwire-worker beside it"
    say "examples and documentation are in $below/share/gradwire"
    [[ :$PATH: == *:$prefix/bin:* ]] || say "$prefix/bin is not in PATH: add it, or run $prefix/bin/gradwire"
}

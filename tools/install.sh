# shellcheck shell=bash
# Part of ./gradwire: install.

install_help() {
    cat <<'HELP'
./gradwire install [--prefix DIR]

Installs the programs in DIR/bin, the C library libgradwire-predict in DIR/lib and DIR/include, examples and
documentation in DIR/share/gradwire, and manual pages in DIR/share/man. It replaces what an earlier version
installed there.

  --prefix DIR   where to install (default /usr/local)

For packages: DESTDIR=ROOT in the environment installs everything below ROOT. The command writes nothing else. An installed
gradwire writes nothing to these directories, so all users can run it. If you are root, the programs are built as the owner
of the source tree.
To uninstall: rm -rf DIR/bin/gradwire DIR/bin/gradwire-* DIR/share/gradwire DIR/share/man/man*/*gradwire* \
    DIR/lib/gradwire DIR/lib/libgradwire-predict.* DIR/lib/pkgconfig/gradwire-predict.pc DIR/include/gradwire-predict.h
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
            [[ $# -gt 1 ]] || die 2 "--prefix needs a directory"
            prefix=$2
            shift
            ;;
        *) die 2 "install: $1: no such flag; install --help lists them" ;;
        esac
        shift
    done
    prefix=${prefix/#\~\//$HOME/} # the shell leaves it in --prefix=~/.local
    [[ -n $prefix ]] || die 2 "--prefix needs a directory"
    prefix=$(realpath -ms "$prefix")
}

# Succeeds if the directory exists and is writable, or can be created.
install_may_write() { # FOLDER
    local at=$1
    while [[ ! -e $at ]]; do at=$(dirname "$at"); done
    if ! [[ -d $at && -w $at && -x $at ]] || ! (umask 022 && mkdir -p "$1" 2>/dev/null); then
        die 1 "install: $at is not a directory that $(id -un) can write to; run this with sudo, or give another --prefix, such as ~/.local"
    fi
}

# As root, build as the owner of the build directory, or else of the source tree, who can then build again without sudo.
install_build() {
    local owner group
    local -a module=()
    read -r owner group < <(stat -c '%u %g' "$ROOT/build" 2>/dev/null || stat -c '%u %g' "$ROOT")
    if [[ $EUID -eq 0 && $owner -ne 0 ]]; then
        HOME=$(getent passwd "$owner" | cut -d: -f6) setpriv --reuid="$owner" --regid="$group" --clear-groups \
            "$ROOT/gradwire" build
    else
        [[ ! -f $ROOT/build/arrow/gradwire-arrow.so ]] || module=(gradwire-arrow)
        build release "${PROGRAMS[@]}" gradwire-predict gradwire-manual "${module[@]}"
    fi
}

install_all() {
    local prefix=/usr/local below said
    install_parse "$@"
    below=${DESTDIR:-}$prefix
    install_may_write "$below/bin"
    install_may_write "$below/share/gradwire"
    install_may_write "$below/share/man"
    install_may_write "$below/lib"
    install_may_write "$below/include"
    install_build
    rm -rf "$below/share/gradwire/docs" "$below/share/gradwire/examples" # files that a newer version no longer has
    umask 022 # of the folders; files have modes of their own
    said=$(cmake --install "$ROOT/build" --prefix "$prefix" 2>&1) || die 1 "install: $(tail -n 3 <<<"$said")"
    rm -f "$ROOT"/build/install_manifest*.txt # root's would be in the way of the next one
    say "installed $below/bin/gradwire, and its programs gradwire-ps, gradwire-worker and others in the same directory"
    say "examples and documentation are in $below/share/gradwire"
    [[ :$PATH: == *:$prefix/bin:* ]] || say "$prefix/bin is not in PATH: add it, or run $prefix/bin/gradwire"
}

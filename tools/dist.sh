# shellcheck shell=bash
# Part of ./gradwire: dist.

# Make a tarball of the last commit. The same commit gives the same bytes for every user and at any time.
dist() {
    local version name file
    [[ $# -eq 0 ]] || die 2 "dist: '$1' is not known; it takes no arguments"
    [[ $(in_git rev-parse --show-cdup 2>&1) == "" ]] || die 1 "dist packs a commit, but this is not a git checkout"
    version=$(sed -n 's/^#define GRADWIRE_VERSION "\(.*\)"$/\1/p' "$ROOT/common/base/version.h")
    name=gradwire-$version-$(in_git rev-parse --short=12 HEAD)
    file=$ROOT/build/$name.tar.gz
    [[ -z $(in_git status --porcelain) ]] || say "dist packs the last commit; your changes since then are not in it"
    mkdir -p "$ROOT/build"
    in_git -c tar.umask=0022 -c core.autocrlf=false -c core.attributesFile=/dev/null archive --format=tar --prefix="$name/" HEAD |
        gzip -9n >"$file.part"
    mv "$file.part" "$file"
    printf '%s\n' "$file"
}

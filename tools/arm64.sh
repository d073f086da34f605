# shellcheck shell=bash
# Part of ./gradwire: the build for arm64 on another processor. tools/arm64.cmake has its compiler and its emulator.

arm64_need() {
    [[ $(uname -m) != aarch64 ]] || die 2 "build arm64: this host is arm64; its own build is release"
    [[ $(packages_manager) == apt ]] || die 1 "build arm64: needs Debian's cross compiler and packages"
    packages_need arm64
}

# Unpack Debian's development packages for arm64 in DIR. They are not installed next to this host's packages, because some
# packages of one processor exclude those of the other.
arm64_sysroot() { # DIR
    local stamp=$1.ok packages suite
    packages=$(packages_debian arm64_sysroot | paste -sd,)
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-stable}")
    [[ ! -f $stamp || $(<"$stamp") != "$suite $packages" ]] || return 0
    say "unpacking Debian's packages for arm64 in $1"
    rm -rf "$1" "$stamp"
    quietly "$1.log" mmdebstrap --variant=extract --architectures=arm64 "--include=$packages" \
        --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --dpkgopt='path-exclude=/usr/share/*' \
        --dpkgopt='path-include=/usr/share/pkgconfig/*' "$suite" "$1"
    arm64_links "$1"
    printf '%s\n' "$suite $packages" >"$stamp"
}

# Do what the scripts of the packages would do: make the links of update-alternatives. Absolute links become relative. qemu
# opens a file of DIR instead of the host's file of the same name, so everything but libraries goes.
arm64_links() { # DIR
    local link to lib=$1/usr/lib/aarch64-linux-gnu
    ln -sf openblas-pthread/libopenblas.so.0 "$lib/libopenblas.so.0"
    ln -sf openblas-pthread/libopenblas.so "$lib/libopenblas.so"
    ln -sf ../openblas-pthread/pkgconfig/openblas.pc "$lib/pkgconfig/openblas.pc"
    ln -sf hdf5-serial.pc "$lib/pkgconfig/hdf5.pc"
    while IFS=$'\t' read -r link to; do
        ln -sfnr "$1$to" "$link"
    done < <(find "$1/usr" -type l -lname '/*' -printf '%p\t%l\n')
    rm -rf "${1:?}"/{bin,sbin,boot,dev,etc,home,media,mnt,opt,proc,root,run,srv,sys,tmp,var} "${1:?}"/usr/{bin,sbin,games}
}

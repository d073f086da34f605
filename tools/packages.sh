# shellcheck shell=bash
# Part of ./gradwire: the packages that the build and its checks need, by the names of the machine's package manager.
#
# Tried on Debian 12 and 13. Not tried: Ubuntu, which has Debian's names, and Fedora.

packages_manager() {
    if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
        printf 'apt\n'
    elif command -v dnf >/dev/null && command -v rpm >/dev/null; then
        printf 'dnf\n'
    else
        printf 'none\n'
    fi
}

# Print the names of a group, one per line. A|B means that one of them suffices; the first available one is installed.
packages_debian() { # GROUP
    local -a names=()
    case $1 in
    build)
        names=(libevent-dev libprotobuf-c-dev protobuf-c-compiler libopenblas-dev libgflags-dev libzstd-dev libxxhash-dev
            zlib1g-dev libzip-dev libssl-dev libcmocka-dev libyaml-dev libjansson-dev libhdf5-dev cmake ninja-build gcc g++ pkg-config
            python3 zstd openssl)
        ;;
    lint) names=(clang clang-format shellcheck git) ;;
    fuzz) names=(clang "libclang-rt-dev|libclang-rt-14-dev") ;;
    k8s) names=(python3-yaml python3-jsonschema) ;;
    containers) names=(buildah podman runc dnsmasq-base nftables iproute2 mmdebstrap) ;;
    arm64) names=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static mmdebstrap) ;;
    arm64_sysroot) # the libraries of `build`
        names=(libc6-dev libevent-dev libprotobuf-c-dev libopenblas-pthread-dev libgflags-dev libzstd-dev libxxhash-dev
            zlib1g-dev libzip-dev libssl-dev libcmocka-dev libyaml-dev libjansson-dev libhdf5-dev)
        ;;
    interop) names=(python3-venv) ;;
    kernel_tls) names=(qemu-system-x86 busybox-static cpio kmod) ;;
    instructions) names=(valgrind) ;;
    mutate) names=(git) ;;
    esac
    printf '%s\n' "${names[@]}"
}

packages_fedora() { # GROUP
    local -a names=()
    case $1 in
    build)
        names=(libevent-devel protobuf-c-devel protobuf-c-compiler openblas-devel gflags-devel libzstd-devel xxhash-devel
            zlib-devel libzip-devel openssl-devel "libcmocka-devel|cmocka-devel" libyaml-devel jansson-devel hdf5-devel cmake ninja-build
            gcc gcc-c++ pkgconf-pkg-config python3 zstd openssl)
        ;;
    lint) names=(clang clang-tools-extra ShellCheck git) ;;
    fuzz) names=(clang compiler-rt) ;;
    k8s) names=(python3-pyyaml python3-jsonschema) ;;
    interop) names=(python3) ;;
    instructions) names=(valgrind) ;;
    mutate) names=(git) ;;
    *) return 1 ;; # images and the kernel's TLS are tested on Debian's packages
    esac
    printf '%s\n' "${names[@]}"
}

packages_of() { # GROUP...
    local group
    for group in "$@"; do
        case $(packages_manager) in
        dnf) packages_fedora "$group" || die 1 "$group needs Debian's packages" ;;
        *) packages_debian "$group" ;;
        esac
    done
}

package_is_installed() { # NAME
    case $(packages_manager) in
    apt) [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]] ;;
    dnf) rpm -q --whatprovides "$1" >/dev/null 2>&1 ;;
    esac
}

package_exists() { # NAME
    case $(packages_manager) in
    apt) apt-cache show --no-all-versions "$1" >/dev/null 2>&1 ;;
    dnf) [[ -n $(dnf -q repoquery --whatprovides "$1" 2>/dev/null) ]] ;;
    esac
}

# Print the first of A|B for which the command succeeds. Returns 1 if there is none.
package_first() { # A|B COMMAND
    local name
    local -a names
    IFS='|' read -ra names <<<"$1"
    for name in "${names[@]}"; do
        if "$2" "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    return 1
}

packages_missing() { # WANTED...
    local wanted
    for wanted in "$@"; do
        package_first "$wanted" package_is_installed >/dev/null || printf '%s\n' "$wanted"
    done
}

# Install those packages that the package manager has, and print the names of the others.
packages_install() { # WANTED...
    local wanted name manager update=
    local -a as_root=() names=() install=(apt-get install -y --no-install-recommends)
    manager=$(packages_manager)
    [[ $manager == apt ]] || install=(dnf install -y --setopt=install_weak_deps=False)
    [[ $manager != apt ]] || compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || update='sudo apt-get update && '
    if [[ $EUID -ne 0 ]]; then
        sudo -n true 2>/dev/null || die 1 "packages are missing; run: ${update}sudo ${install[*]} ${*%%|*}"
        as_root=(sudo -n)
    fi
    [[ $manager != apt ]] || quietly "$ROOT/build/log/apt-update.log" "${as_root[@]}" apt-get update
    for wanted in "$@"; do
        if name=$(package_first "$wanted" package_exists); then
            names+=("$name")
        else
            say "$manager has no package ${wanted//|/ or }; install its contents yourself"
        fi
    done
    [[ ${#names[@]} -gt 0 ]] || return 0
    say "installing ${names[*]}"
    quietly "$ROOT/build/log/$manager-install.log" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" "${names[@]}"
}

# If all packages were installed before, return immediately: a stamp file is then newer than the package manager's list.
packages_need() { # GROUP...
    local stamp=$ROOT/build/log/packages-$*.ok list=/var/lib/dpkg/status manager
    local names
    local -a wanted missing
    stamp=${stamp// /-}
    manager=$(packages_manager)
    [[ $manager != dnf ]] || list=/usr/lib/sysimage/rpm/rpmdb.sqlite
    [[ $stamp -nt $list && $stamp -nt $ROOT/tools/packages.sh ]] && return
    names=$(packages_of "$@") || exit
    mapfile -t wanted < <(sort -u <<<"$names")
    if [[ $manager == none ]]; then
        say "this system has neither apt-get nor dnf; install the contents of these Debian packages: ${wanted[*]}"
    else
        mapfile -t missing < <(packages_missing "${wanted[@]}")
        [[ ${#missing[@]} -eq 0 ]] || packages_install "${missing[@]}"
    fi
    mkdir -p "$(dirname "$stamp")"
    touch "$stamp"
}

setup() {
    if [[ $* == arrow ]]; then
        setup_arrow
        return
    fi
    [[ $# -eq 0 ]] || die 2 "setup: '$1' is not known; it takes no argument, or arrow"
    packages_need build lint fuzz k8s
    say "setup is done"
}

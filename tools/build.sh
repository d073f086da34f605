# shellcheck shell=bash
# Part of ./gradwire: the builds, each in a folder of its own.

build_dir() { # BUILD
    case $1 in
    release) printf '%s\n' "$ROOT/build" ;;
    debug | asan | tsan | arm64) printf '%s\n' "$ROOT/build/$1" ;;
    *) die 2 "build: '$1' is not known; allowed: release, debug, asan, tsan, arm64" ;;
    esac
}

build_configure() { # BUILD DIR
    local -a flags=(-DCMAKE_BUILD_TYPE=Release -DGRADWIRE_SANITIZE= "-DGRADWIRE_WERROR=${GRADWIRE_WERROR:-OFF}")
    case $1 in
    debug) flags[0]=-DCMAKE_BUILD_TYPE=Debug ;;
    asan) flags=(-DCMAKE_BUILD_TYPE=Sanitize -DGRADWIRE_SANITIZE=address) ;;
    tsan) flags=(-DCMAKE_BUILD_TYPE=Sanitize -DGRADWIRE_SANITIZE=thread) ;;
    arm64) flags+=("-DCMAKE_TOOLCHAIN_FILE=$ROOT/tools/arm64.cmake" "-DGRADWIRE_SYSROOT=$2/sysroot") ;;
    esac
    quietly "$2/log/cmake.log" cmake -S "$ROOT" -B "$2" -G Ninja "${flags[@]}"
}

# Only one build of a directory runs at a time; a second one waits, and then finds everything built.
build() { # BUILD [TARGET]...
    local kind=$1 dir
    dir=$(build_dir "$kind")
    shift
    packages_need build
    [[ $kind != arm64 ]] || arm64_need
    mkdir -p "$dir/log"
    exec {build_lock}>"$dir/log/lock"
    flock "$build_lock"
    [[ $kind != arm64 ]] || arm64_sysroot "$dir/sysroot"
    [[ -f $dir/.ninja_log ]] || say "building in $dir; this takes a minute or two (log: $dir/log/build.log)"
    [[ -f $dir/build.ninja ]] || build_configure "$kind" "$dir"
    quietly "$dir/log/build.log" ninja -C "$dir" "$@"
    exec {build_lock}>&-
}

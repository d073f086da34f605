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

# A tree that was copied or moved brings its build directories along. CMake's files there have the old tree's paths: ninja would
# compile the old tree's sources, and cmake would install its programs and pages. Without these files everything is built from scratch.
build_forget_other_tree() { # DIR
    local made_in
    made_in=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$1/CMakeCache.txt" 2>/dev/null) || return 0
    [[ -n $made_in && ! $made_in -ef $ROOT ]] || return 0
    say "$1 was made for the tree in $made_in: building from scratch"
    rm -rf "$1"/{CMakeCache.txt,CMakeFiles,build.ninja,.ninja_deps,.ninja_log}
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
    build_forget_other_tree "$dir"
    [[ -f $dir/.ninja_log ]] || say "building in $dir; this takes a minute or two (log: $dir/log/build.log)"
    [[ -f $dir/build.ninja ]] || build_configure "$kind" "$dir"
    quietly "$dir/log/build.log" ninja -C "$dir" "$@"
    exec {build_lock}>&-
}

# shellcheck shell=bash
# Part of ./gradwire: test, bench, mutate.

GROUPS_ALL=(unit sim wire train e2e k8s)
GROUPS_ARM64=(unit sim wire train)                                 # that qemu can run
GROUPS_MORE=(operator containers cluster kernel_tls pages interop) # only when asked for by name
GO_PLACES=(/usr/local/go/bin/go /usr/lib/go/bin/go) # besides PATH; tests/k8s/render.py looks there, too
TEST_BUILD=release TEST_SHORT=0 TEST_GROUPS=()

test_parse() {
    while [[ $# -gt 0 ]]; do
        case $1 in
        --build=*) TEST_BUILD=${1#*=} ;;
        --build)
            [[ $# -gt 1 ]] || die 2 "--build needs release, debug, asan, tsan or arm64"
            TEST_BUILD=$2
            shift
            ;;
        --short) TEST_SHORT=1 ;;
        *)
            [[ " ${GROUPS_ALL[*]} ${GROUPS_MORE[*]} " == *" $1 "* ]] ||
                die 2 "test $1: the groups are ${GROUPS_ALL[*]} ${GROUPS_MORE[*]}"
            TEST_GROUPS+=("$1")
            ;;
        esac
        shift
    done
    [[ $TEST_BUILD != arm64 ]] || test_arm64
    [[ ${#TEST_GROUPS[@]} -gt 0 ]] || TEST_GROUPS=("${GROUPS_ALL[@]}")
}

# qemu runs the test programs. It runs no program that they or a script would start.
test_arm64() {
    local group
    [[ ${#TEST_GROUPS[@]} -gt 0 ]] || TEST_GROUPS=("${GROUPS_ARM64[@]}")
    for group in "${TEST_GROUPS[@]}"; do
        [[ " ${GROUPS_ARM64[*]} " == *" $group "* ]] ||
            die 2 "test $group --build arm64: qemu runs only the groups ${GROUPS_ARM64[*]}"
    done
}

# A regular expression over ctest's labels.
test_labels() {
    local group
    local -a labels=()
    for group in "${TEST_GROUPS[@]}"; do
        if [[ $group == e2e && $TEST_SHORT -eq 1 ]]; then
            labels+=(short)
        else
            labels+=("$group")
        fi
    done
    (
        IFS='|'
        printf '^(%s)$' "${labels[*]}"
    )
}

# Sanitizers need fixed addresses for their shadow memory; with some kernels address randomization puts libraries there.
test_wrapper() {
    if [[ $TEST_BUILD == [at]san ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
        printf '%s\n' setarch "$(uname -m)" -R
    fi
}

# Take groups out of those that run. If none is left, that is all.
test_without() { # GROUP...
    local group
    local -a others=()
    for group in "${TEST_GROUPS[@]}"; do
        [[ " $* " == *" $group "* ]] || others+=("$group")
    done
    [[ ${#others[@]} -gt 0 ]] || exit 0
    TEST_GROUPS=("${others[@]}")
}

test_has_go() {
    local place
    for place in go "${GO_PLACES[@]}"; do
        if command -v "$place" >/dev/null; then return 0; fi
    done
    return 1
}

# Skip the groups that run others' code, if Go cannot compile it, or if the program that applies the manifests is missing.
test_tools() {
    local group missing
    for group in "${TEST_GROUPS[@]}"; do
        missing=''
        [[ $group != cluster ]] || command -v kubectl >/dev/null || missing=kubectl
        [[ $group != operator && $group != cluster ]] || test_has_go || missing=go
        [[ -n $missing ]] || continue
        say "skipping $group: $missing is not there"
        test_without "$group"
    done
}

# Build the code of the training operator, and that of Trainer, JobSet and Kueue, with Go. The first time takes some minutes,
# with messages.
test_operator_build() { # DIR
    local part
    for part in operator trainer; do
        GRADWIRE_ROOT=$ROOT GRADWIRE_BUILD=$1 python3 "$ROOT/tests/k8s/$part/build.py" ||
            die 1 "test operator: the code in tests/k8s/$part does not build"
    done
}

# Kubernetes' own API server and controllers, compiled by Go
test_cluster_build() { # DIR
    GRADWIRE_ROOT=$ROOT GRADWIRE_BUILD=$1 python3 "$ROOT/tests/k8s/cluster/programs.py" ||
        die 1 "test cluster: the control plane's code does not build"
}

# The groups containers, cluster and operator run containers of an image: that of GRADWIRE_IMAGE_STORAGE, or one made from this
# build's programs. If there can be none, containers and cluster are skipped, and operator runs its other tests.
test_image() { # DIR
    local code=0
    [[ -z ${GRADWIRE_IMAGE_STORAGE:-} ]] || return 0
    if [[ $EUID -eq 0 ]] && ! (packages_need containers); then
        say "skipping containers: the packages that they need cannot be installed"
        code=3
    else
        "$ROOT/tests/k8s/image_here" "$1" "$1/image" || code=$?
        export GRADWIRE_IMAGE_STORAGE=$1/image
    fi
    [[ $code -ne 0 ]] || return 0
    [[ $code -eq 3 ]] || die 1 "the image for containers was not built"
    [[ " ${TEST_GROUPS[*]} " != *" operator "* ]] || say "operator: the tests that run containers of the operator's pods are left out"
    unset GRADWIRE_IMAGE_STORAGE
    test_without containers cluster
}

# A virtual environment with the packages of tests/interop/requirements.txt, unless GRADWIRE_INTEROP_PYTHON names a Python that
# has them.
test_interop() { # DIR
    local home=$1/interop wanted=$ROOT/tests/interop/requirements.txt
    [[ -z ${GRADWIRE_INTEROP_PYTHON:-} ]] || return 0
    export GRADWIRE_INTEROP_PYTHON=$home/bin/python
    cmp -s "$wanted" "$home/has" && return 0
    (packages_need interop) || die 1 "test interop: the packages that make a virtual environment cannot be installed"
    say "installing the packages of tests/interop/requirements.txt in $home"
    python3 -m venv "$home" || die 1 "test interop: python3 -m venv does not work"
    "$home/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" ||
        die 1 "test interop: the packages cannot be installed; without a network, let GRADWIRE_INTEROP_PYTHON name a Python that has them"
    cp "$wanted" "$home/has"
}

test_all() {
    local dir jobs
    local -a wrapper targets=() show=(--output-on-failure)
    test_parse "$@"
    test_tools
    jobs=$(($(nproc) + 1)) # one waits, mostly
    dir=$(build_dir "$TEST_BUILD")
    if [[ " ${TEST_GROUPS[*]} " =~ " "(k8s|operator|containers|cluster)" " ]]; then
        packages_need k8s
    fi
    if [[ ${TEST_GROUPS[*]} == operator || ${TEST_GROUPS[*]} == cluster ]]; then # a few long tests, and none of ours in C
        targets=("${PROGRAMS[@]}" gradwire-entrypoint)
        show=(--verbose)
    fi
    if [[ " ${TEST_GROUPS[*]} " == *" kernel_tls "* ]]; then
        (packages_need kernel_tls) || say "the packages that kernel_tls needs cannot be installed"
    fi
    if [[ ${TEST_GROUPS[*]} == kernel_tls ]]; then
        targets=("${PROGRAMS[@]}" wire_tls_test)
        show=(--verbose)
    fi
    if [[ ${TEST_GROUPS[*]} == interop ]]; then
        targets=("${PROGRAMS[@]}" interop_fixture interop_every_op interop_csv_read interop_commands)
        [[ ! -f $dir/arrow/gradwire-arrow.so ]] || targets+=(gradwire-arrow)
        show=(--verbose)
    fi
    build "$TEST_BUILD" "${targets[@]}"
    [[ " ${TEST_GROUPS[*]} " != *" interop "* ]] || test_interop "$dir"
    if [[ " ${TEST_GROUPS[*]} " =~ " "(operator|containers|cluster)" " ]]; then
        test_image "$dir"
    fi
    [[ " ${TEST_GROUPS[*]} " != *" operator "* ]] || test_operator_build "$dir"
    [[ " ${TEST_GROUPS[*]} " != *" cluster "* ]] || test_cluster_build "$dir"
    mapfile -t wrapper < <(test_wrapper)
    [[ $TEST_SHORT -eq 0 ]] || export GRADWIRE_SHORT=1
    export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
    say "test ${TEST_GROUPS[*]} ($TEST_BUILD)"
    exec "${wrapper[@]}" ctest --test-dir "$dir" --label-regex "$(test_labels)" --no-tests=error \
        "${show[@]}" --parallel "$jobs"
}

bench() {
    [[ -f $ROOT/benchmarks/run.py ]] || die 2 "bench: benchmarks/run.py does not exist"
    [[ ${1:-} != instructions ]] || packages_need instructions
    build release
    export GRADWIRE_BUILD=$ROOT/build GRADWIRE_ROOT=$ROOT
    exec python3 "$ROOT/benchmarks/run.py" "$@"
}

mutate() {
    packages_need build mutate
    exec python3 "$ROOT/tests/mutate/run.py" "$@"
}

# shellcheck shell=bash
# Part of ./gradwire: fuzz.

fuzz_run() { # NAME LIMIT SEED; seed 0: libFuzzer draws one
    local dir=$ROOT/build/fuzz corpus=$ROOT/build/fuzz/corpus/$1
    local -a seeds=()
    mkdir -p "$corpus"
    [[ ! -d $ROOT/tests/fuzz/corpus/$1 ]] || seeds=("$ROOT/tests/fuzz/corpus/$1")
    [[ $1 != parquet ]] || seeds=("$ROOT/tests/data/parquet")
    say "fuzz $1: ${2#-}"
    "$dir/tests/fuzz/${1}_fuzz" "$2" -seed="$3" -artifact_prefix="$dir/" -print_final_stats=1 \
        "$corpus" "${seeds[@]}"
}

fuzz() {
    local limit=-max_total_time=60 seed=0 name file
    local -a names=()
    while [[ $# -gt 0 ]]; do
        case $1 in
        --seconds=*) limit=-max_total_time=${1#*=} ;;
        --runs=*) limit=-runs=${1#*=} ;;
        --seconds | --runs)
            [[ $# -gt 1 ]] || die 2 "$1 needs a whole number from 1"
            limit=-max_total_time=$2
            [[ $1 = --seconds ]] || limit=-runs=$2
            shift
            ;;
        --seed=*) seed=${1#*=} ;;
        --seed)
            [[ $# -gt 1 ]] || die 2 "--seed needs a whole number"
            seed=$2
            shift
            ;;
        *) names+=("$1") ;;
        esac
        shift
    done
    [[ $limit =~ =[1-9][0-9]*$ ]] || die 2 "--seconds and --runs need a whole number from 1"
    [[ $seed =~ ^[0-9]+$ ]] || die 2 "--seed needs a whole number"
    compgen -G "$ROOT/tests/fuzz/*_fuzz.c" >/dev/null || die 2 "fuzz: tests/fuzz has no targets"
    if [[ ${#names[@]} -eq 0 ]]; then
        for file in "$ROOT"/tests/fuzz/*_fuzz.c; do
            names+=("$(basename "$file" _fuzz.c)")
        done
    fi
    for name in "${names[@]}"; do
        [[ -f $ROOT/tests/fuzz/${name}_fuzz.c ]] || die 2 "fuzz $name: tests/fuzz/${name}_fuzz.c does not exist"
    done
    packages_need build fuzz
    build_forget_other_tree "$ROOT/build/fuzz"
    CC=clang CXX=clang++ quietly "$ROOT/build/fuzz/log/cmake.log" cmake -S "$ROOT" -B "$ROOT/build/fuzz" -G Ninja \
        -DCMAKE_BUILD_TYPE=Sanitize -DGRADWIRE_SANITIZE=address -DGRADWIRE_FUZZ=ON
    quietly "$ROOT/build/fuzz/log/build.log" ninja -C "$ROOT/build/fuzz" "${names[@]/%/_fuzz}"
    ln -sfn "$ROOT/build/arrow" "$ROOT/build/fuzz/tests/arrow" # as if it were the build's own
    export ARROW_DEFAULT_MEMORY_POOL=system                    # so that the sanitizer sees what is read of it
    for name in "${names[@]}"; do
        if [[ $name = parquet && ! -e $ROOT/build/arrow/gradwire-arrow.so ]]; then
            say "skipping fuzz parquet: the module gradwire-arrow is not there; run ./gradwire setup arrow"
            continue
        fi
        fuzz_run "$name" "$limit" "$seed"
    done
    say "fuzz ok: ${names[*]}"
}

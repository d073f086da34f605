# shellcheck shell=bash
# Part of ./gradwire: lint.

lint_format() {
    in_git ls-files -z -- '*.c' '*.h' '*.cc' | (cd "$ROOT" && xargs -0r clang-format --dry-run -Werror)
}

shell_files() {
    local file line
    in_git ls-files -z | while IFS= read -r -d '' file; do
        [[ -f $ROOT/$file ]] || continue
        line=
        IFS= read -r line 2>/dev/null <"$ROOT/$file" || true
        [[ $file != *.sh && ! $line =~ ^\#!.*[/\ ](ba)?sh ]] || printf '%s\0' "$file"
    done
}

lint_shell() {
    shell_files 2>/dev/null | (cd "$ROOT" && xargs -0r shellcheck)
}

# gcc gives some warnings only when it optimizes. A release build with GRADWIRE_WERROR=ON, as in CI, has done that.
lint_gcc() {
    local dir=$ROOT/build
    build_forget_other_tree "$dir"
    build_forget_other_tree "$dir/lint-gcc"
    if ! grep -qs '^GRADWIRE_WERROR:BOOL=ON' "$dir/CMakeCache.txt"; then
        dir=$ROOT/build/lint-gcc
        CC=gcc CXX=g++ cmake -S "$ROOT" -B "$dir" -G Ninja -DGRADWIRE_WERROR=ON >/dev/null || return
    fi
    ninja -C "$dir" --quiet
}

# clang compiles for its warnings only, without output files. Assertions are off, so that it warns of variables that only
# assertions use; gcc has assertions on.
lint_clang() {
    local dir=$ROOT/build/lint-clang
    build_forget_other_tree "$dir"
    CC=clang CXX=clang++ cmake -S "$ROOT" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DGRADWIRE_WERROR=ON -DGRADWIRE_ASSERTIONS=OFF \
        -DGRADWIRE_MANUAL=OFF \
        "-DCMAKE_C_COMPILE_OBJECT=<CMAKE_C_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -fsyntax-only <SOURCE> && touch <OBJECT>" \
        -DCMAKE_C_CREATE_STATIC_LIBRARY="touch <TARGET>" -DCMAKE_C_LINK_EXECUTABLE="touch <TARGET>" \
        -DCMAKE_CXX_LINK_EXECUTABLE="touch <TARGET>" >/dev/null &&
        ninja -C "$dir" --quiet
}

# No file contains a path of the machine on which it was written: the file would work only there.
lint_paths() {
    local homes='(^|[^[:alnum:]_./-])/(home|root|Users|work|workspace)/[[:alnum:]]'
    ! in_git grep -nIE "$homes" -- . && ! in_git grep -nIF "$ROOT/" -- .
}

# The rules of the house, and a test that each rule still finds violations.
lint_house() {
    python3 "$ROOT/tests/lint/house_test.py" && python3 "$ROOT/tests/lint/house.py" &&
        python3 "$ROOT/tests/lint/counts_test.py" && python3 "$ROOT/tests/lint/counts.py" &&
        python3 "$ROOT/tests/lint/keys.py" && python3 "$ROOT/tests/lint/adding.py" && python3 "$ROOT/tests/lint/same_objects_test.py"
}

# Sentences and phrases that a reader must read twice.
lint_words() {
    python3 "$ROOT/tests/lint/words_test.py" && python3 "$ROOT/tests/lint/words.py"
}

# The form of pages' blocks, and the tables of commands that no test runs.
lint_pages() {
    python3 "$ROOT/tests/lint/pages_test.py" && python3 "$ROOT/tests/lint/pages.py"
}

lint() {
    local failed=() check
    [[ $# -eq 0 ]] || die 2 "lint: '$1' is not known; it takes no arguments"
    packages_need build lint
    in_git rev-parse --git-dir >/dev/null || die 1 "lint checks the files that git tracks, but this is not a git checkout"
    for check in lint_format lint_shell lint_gcc lint_clang lint_paths lint_house lint_words lint_pages; do
        say "$check"
        "$check" || failed+=("${check#lint_}")
    done
    if [[ ${#failed[@]} -gt 0 ]]; then
        local IFS=,
        die 1 "lint failed: ${failed[*]}"
    fi
    say "lint ok"
}

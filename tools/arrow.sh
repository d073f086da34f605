# shellcheck shell=bash
# Part of ./gradwire: `setup arrow`, which gets Apache Arrow for the module gradwire-arrow, and builds it.
#
# Where the system has Arrow 19 or newer (pkg-config arrow and parquet), that is used. Else the libraries and headers of a wheel of
# PyPI are unpacked in build/arrow: Debian has no package of them. No Python is needed to run what is built.

ARROW_VERSION=26.0.1
ARROW_HASHES=(
    sha256:39cb0f2418282c24bea6ceda77b03e5a8f0a5766b63a8bf194d4e2a2c423548c # x86_64
    sha256:22a96a225de107eb9acd1ad9a818198ca832df2a4c0952412f754a7ed2105a98 # aarch64
)

# Download the wheel; pip compares its hash. The environment that pip comes from is left in FOLDER.
arrow_download() { # FOLDER
    local -a from=(--no-deps --only-binary=:all: --platform "manylinux_2_28_$(uname -m)" --python-version 311 --implementation cp
        --abi cp311)
    python3 -m venv "$1/python" || return
    printf 'pyarrow==%s%s\n' "$ARROW_VERSION" "$(printf ' --hash=%s' "${ARROW_HASHES[@]}")" >"$1/wanted"
    "$1/python/bin/pip" download --disable-pip-version-check --require-hashes "${from[@]}" --dest "$1" --requirement "$1/wanted"
}

# A subshell, as an error ends it: what was downloaded is removed in each case.
arrow_get() (
    to=$ROOT/build/arrow
    mkdir -p "$to"
    fresh=$(mktemp -d "$to/new.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    say "getting Apache Arrow $ARROW_VERSION in build/arrow"
    quietly "$ROOT/build/log/arrow.log" arrow_download "$fresh"
    python3 -m zipfile -e "$fresh"/pyarrow-*.whl "$fresh/wheel"
    rm -rf "$to/include" "$to"/lib*.so.*
    mv "$fresh/wheel/pyarrow/include" "$fresh"/wheel/pyarrow/lib{arrow,parquet}.so.* "$to"
    cp "$fresh"/wheel/pyarrow-*.dist-info/licenses/*.txt "$to"
)

setup_arrow() {
    packages_need build
    packages_need interop # a Python with pip
    if pkg-config --exists 'arrow >= 19' 'parquet >= 19'; then
        say "the system's Apache Arrow $(pkg-config --modversion arrow) is used"
    elif [[ ! -f $ROOT/build/arrow/libparquet.so.${ARROW_VERSION%%.*}00 ]]; then
        arrow_get
    fi
    mkdir -p "$ROOT/build/log"
    build_forget_other_tree "$ROOT/build"
    build_configure release "$ROOT/build"
    build release gradwire-arrow
    say "the module gradwire-arrow is in build/arrow: jobs can name data.format: parquet"
}

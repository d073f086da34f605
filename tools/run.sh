# shellcheck shell=bash
# One of ./gradwire's files: how the others run commands.

# Run a command with its output in a log, which is shown only if it fails.
quietly() { # LOG COMMAND...
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        die 1 "failed: $* (log: $log)"
    fi
}

in_git() { # GIT ARGUMENTS...
    git -C "$ROOT" -c safe.directory="$ROOT" "$@"
}

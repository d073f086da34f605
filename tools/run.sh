# shellcheck shell=bash
# Part of ./gradwire: functions that run commands.

# Run a command and write its output to a log, which is printed only if the command fails.
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

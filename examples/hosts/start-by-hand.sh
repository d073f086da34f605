#!/usr/bin/env bash
# Start what runs on this host of a job on several hosts, without a launcher: run the same line on every host.
#
#   start-by-hand.sh JOB DIR PS WORKERS [FLAG]...
#
#   examples/hosts/start-by-hand.sh examples/mnist/mlp.yaml /shared/runs/mlp \
#       node1:7000,node2:7000 node1:7100,node2:7100,node3:7100 --token_file=/shared/secret
#
# PS and WORKERS are host:port, with commas between them: the same on all hosts, in the same order. The first worker is
# the chief. Those whose host is this one are started here; MY_HOST=NAME says which that is, where its own names and
# addresses do not. DIR is on storage that the hosts share. Every FLAG goes to each process: --help of the programs
# lists them. Give --token_file=FILE, the same secret for all, or --auth=none: then whoever reaches a port may speak to it.
#
# Logs are in DIR/by-hand. Ctrl-C and SIGTERM are passed on: the job ends after a checkpoint, and the same lines let it
# go on. Nothing is started again: where that is wanted, let a supervisor start each process by its own line (a signal,
# or an exit of 128 and more, asks for it), or use gradwire train --hosts. The exit code is the first that is not 0.
set -euo pipefail

[[ $# -ge 4 ]] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
job=$1 out=$2 ps_hosts=$3 worker_hosts=$4
shift 4
here=$(dirname "$(readlink -f "$0")")
own=" ${MY_HOST:-localhost 127.0.0.1 $(hostname) $(hostname -f 2>/dev/null || true) $(hostname -I 2>/dev/null || true)} "
pids=()

program() { # NAME: built in this source tree, or installed with this script
    local path
    for path in "${GRADWIRE_BUILD:-$here/../../build}/$1/$1" "$here/../../../../bin/gradwire-$1"; do
        if [[ -x $path ]]; then
            readlink -f "$path"
            return
        fi
    done
    echo "the program of a $1 is not there: ./gradwire build makes it" >&2
    return 2
}

start_here() { # ROLE PROGRAM HOSTS FLAG...
    local role=$1 program=$2 index=0 address
    local -a hosts
    IFS=, read -ra hosts <<<"$3"
    shift 3
    for address in "${hosts[@]}"; do
        if [[ $own == *" ${address%:*} "* ]]; then
            "$program" --job_name="$role" --task_index="$index" --ps_hosts="$ps_hosts" --worker_hosts="$worker_hosts" \
                --job="$job" --output="$out" "$@" >>"$out/by-hand/$role-$index.log" 2>&1 &
            pids+=($!)
            echo "$role $index: pid $! on $address, log $out/by-hand/$role-$index.log"
        fi
        index=$((index + 1))
    done
}

ps=$(program ps)
worker=$(program worker)
mkdir -p "$out/by-hand"
trap 'kill -TERM "${pids[@]}" 2>/dev/null || true' INT TERM
start_here ps "$ps" "$ps_hosts" "$@"
start_here worker "$worker" "$worker_hosts" "$@"
[[ ${#pids[@]} -gt 0 ]] || {
    echo "none of $ps_hosts,$worker_hosts is this host (${own# })" >&2
    exit 2
}
code=0
for pid in "${pids[@]}"; do
    ended=0
    wait "$pid" || ended=$?
    while kill -0 "$pid" 2>/dev/null; do # it was a signal that ended the wait
        ended=0
        wait "$pid" || ended=$?
    done
    [[ $code -ne 0 ]] || code=$ended
done
exit "$code"

#!/usr/bin/env bash
# Start a job's processes on this host, without a launcher. Run the same line on every host of the job.
#
#   start-by-hand.sh JOB DIR PS WORKERS [FLAG]...
#
#   examples/hosts/start-by-hand.sh examples/mnist/mlp.yaml /shared/runs/mlp \
#       node1:7000,node2:7000 node1:7100,node2:7100,node3:7100 --token_file=/shared/secret
#
# JOB      the job file
# DIR      the output directory, on storage that the hosts share
# PS       host:port of every ps, separated by commas: the same on all hosts, in the same order
# WORKERS  the same for the workers; the first one is the chief
# FLAG     a flag of ps and worker (their --help lists the flags), for every process
#
# Give --token_file=FILE with the same secret on all hosts. With --auth=none instead, everybody who reaches a port can connect.
#
# The script starts the processes whose host is this host. If it does not recognize this host, set MY_HOST=NAME to the name
# that PS and WORKERS use.
#
# Logs are in DIR/by-hand. The script passes Ctrl-C and SIGTERM on: the job ends after a checkpoint, and the same lines resume it.
# The script restarts no process. If you need that, run each process under a supervisor that restarts it after a signal or an
# exit code of 128 or more; or use gradwire train --hosts. The script's exit code is the first exit code that is not 0.
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

program() { # NAME: from this source tree's build, or installed with this script
    local path
    for path in "${GRADWIRE_BUILD:-$here/../../build}/$1/$1" "$here/../../../../bin/gradwire-$1"; do
        if [[ -x $path ]]; then
            readlink -f "$path"
            return
        fi
    done
    echo "there is no program for $1 in ${GRADWIRE_BUILD:-$here/../../build}; run ./gradwire build" >&2
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
    echo "no address of $ps_hosts,$worker_hosts is this host (${own# }); set MY_HOST to its name in these lists" >&2
    exit 2
}
code=0
for pid in "${pids[@]}"; do
    ended=0
    wait "$pid" || ended=$?
    while kill -0 "$pid" 2>/dev/null; do # a signal ended the wait, not the process
        ended=0
        wait "$pid" || ended=$?
    done
    [[ $code -ne 0 ]] || code=$ended
done
exit "$code"

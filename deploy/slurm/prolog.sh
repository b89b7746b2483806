#!/bin/sh
# A line for Slurm's Prolog (slurm.conf: Prolog=/etc/slurm/memgauge-prolog.sh): while a job runs on this machine, a node
# of memgauge ships its owner's sessions to the hub. Slurm ends it with the job where ProctrackType=proctrack/cgroup and
# PrologFlags=Contain are set; deploy/slurm/epilog.sh ends it elsewhere.
#
# MEMGAUGE_HUB, the hub's address, and MEMGAUGE_TOKEN_FILE come from /etc/default/memgauge.
defaults=${MEMGAUGE_SLURM_DEFAULTS:-/etc/default/memgauge}
[ -r "$defaults" ] && . "$defaults"
# a prolog that fails would drain the machine
[ -n "${MEMGAUGE_HUB:-}" ] && [ -n "${SLURM_JOB_UID:-}" ] && [ -n "${SLURM_JOB_ID:-}" ] || exit 0
run=${MEMGAUGE_SLURM_RUN:-/run/memgauge-slurm}
mkdir -p "$run" && chmod 700 "$run" || exit 0
# All that the node touches it touches as the job's owner, its log too: what root opens for it, it could fill. It gets
# none of the environment in which root runs prologs.
setsid setpriv --reuid "$SLURM_JOB_UID" --regid "$(id -g "$SLURM_JOB_UID")" --init-groups --inh-caps=-all \
  --no-new-privs env -i PATH="$PATH" HOME="$(getent passwd "$SLURM_JOB_UID" | cut -d: -f6)" \
  sh -c 'dir=$HOME/.local/state/memgauge; mkdir -p "$dir" 2>/dev/null; log=$dir/node-$0.log
    true >"$log" || log=/dev/null
    exec "$@" >"$log" 2>&1' "$SLURM_JOB_ID" \
  memgauge node --join "$MEMGAUGE_HUB" --token-file "${MEMGAUGE_TOKEN_FILE:-/etc/memgauge/join.token}" \
  --job "${SLURM_JOB_NAME:-slurm}-$SLURM_JOB_ID" </dev/null >/dev/null 2>&1 &
# Its number may be another process's when the job ends. This shell has not waited for it, so now it is the node's.
stat=$(cat "/proc/$!/stat" 2>/dev/null)
set -- $! ${stat##*)} # behind the name, which may have blanks: fields 3 to 52 (proc(5))
[ $# -gt 21 ] && echo "$1 ${21} $SLURM_JOB_UID" >"$run/$SLURM_JOB_ID.pid"
exit 0

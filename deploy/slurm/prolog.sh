#!/bin/sh
# A line for Slurm's Prolog (slurm.conf: Prolog=/etc/slurm/memgauge-prolog.sh): while a job runs on this machine, a node
# of memgauge ships its owner's sessions to the hub. Slurm ends it with the job where ProctrackType=proctrack/cgroup and
# PrologFlags=Contain are set; deploy/slurm/epilog.sh ends it elsewhere.
#
# MEMGAUGE_HUB, the hub's address, and MEMGAUGE_TOKEN_FILE come from /etc/default/memgauge.
defaults=${MEMGAUGE_SLURM_DEFAULTS:-/etc/default/memgauge}
[ -r "$defaults" ] && . "$defaults"
[ -n "${MEMGAUGE_HUB:-}" ] && [ -n "${SLURM_JOB_UID:-}" ] || exit 0 # a prolog that fails would drain the machine
run=${MEMGAUGE_SLURM_RUN:-/run/memgauge-slurm}
mkdir -p "$run" && chmod 700 "$run" || exit 0
setsid setpriv --reuid "$SLURM_JOB_UID" --regid "$(id -g "$SLURM_JOB_UID")" --init-groups \
  env HOME="$(getent passwd "$SLURM_JOB_UID" | cut -d: -f6)" \
  memgauge node --join "$MEMGAUGE_HUB" --token-file "${MEMGAUGE_TOKEN_FILE:-/etc/memgauge/join.token}" \
  --job "${SLURM_JOB_NAME:-slurm}-$SLURM_JOB_ID" </dev/null >"$run/$SLURM_JOB_ID.log" 2>&1 &
echo $! >"$run/$SLURM_JOB_ID.pid"
exit 0

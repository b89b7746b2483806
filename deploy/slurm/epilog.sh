#!/bin/sh
# The other half of prolog.sh (slurm.conf: Epilog=/etc/slurm/memgauge-epilog.sh): ends the job's node of memgauge, which
# ships what it still has first.
pid=${MEMGAUGE_SLURM_RUN:-/run/memgauge-slurm}/${SLURM_JOB_ID:-none}.pid
[ -s "$pid" ] || exit 0
kill "$(cat "$pid")" 2>/dev/null
rm -f "$pid"
exit 0

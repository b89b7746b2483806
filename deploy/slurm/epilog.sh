#!/bin/sh
# The other half of prolog.sh (slurm.conf: Epilog=/etc/slurm/memgauge-epilog.sh): ends the job's node of memgauge, which
# ships what it still has first. The node may be gone and its number another process's: that is seen by when it started,
# and the signal is sent with the rights of the job's owner, which reach nobody else's.
file=${MEMGAUGE_SLURM_RUN:-/run/memgauge-slurm}/${SLURM_JOB_ID:-none}.pid
[ -s "$file" ] || exit 0
read -r pid start uid <"$file"
rm -f "$file"
stat=$(cat "/proc/$pid/stat" 2>/dev/null)
set -- "$pid" ${stat##*)}
[ $# -gt 21 ] && [ "${21}" = "$start" ] || exit 0
setpriv --reuid "$uid" --regid "$(id -g "$uid")" --clear-groups --inh-caps=-all --no-new-privs \
  sh -c 'kill "$0"' "$pid" 2>/dev/null
exit 0

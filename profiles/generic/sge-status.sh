#!/bin/sh
# State of a Grid Engine job: `qstat -j` while it is queued or runs, `qacct -j` once it has ended.
if qstat -j "$1" >/dev/null 2>&1; then
    echo running
    exit
fi
record=$(qacct -j "$1" 2>/dev/null) || { echo running; exit; } # the record comes some seconds later
if echo "$record" | grep -q '^failed  *0' && echo "$record" | grep -q '^exit_status  *0'; then
    echo success
else
    echo failed
fi

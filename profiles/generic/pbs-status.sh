#!/bin/sh
# State of a PBS job, by `qstat -x -f`: needs job history (`qmgr -c 'set server job_history_enable = 1'`).
listing=$(qstat -x -f "$1" 2>/dev/null) || { echo running; exit; }
case "$listing" in
*"job_state = F"* | *"job_state = C"*) ;;
*) echo running; exit ;;
esac
case "$(echo "$listing" | sed -n 's/^ *[Ee]xit_status = //p')" in
0) echo success ;;
*) echo failed ;;
esac

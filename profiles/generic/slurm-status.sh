#!/bin/sh
# State of a SLURM job by `scontrol`, which remembers ended jobs for MinJobAge.
case "$(scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')" in
COMPLETED) echo success ;;
"" | PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | REQUEUED) echo running ;;
*) echo failed ;;
esac

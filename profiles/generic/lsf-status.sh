#!/bin/sh
# State of an LSF job by `bjobs`, which remembers ended jobs for CLEAN_PERIOD (an hour by default).
case "$(bjobs -noheader -o stat "$1" 2>/dev/null)" in
DONE) echo success ;;
EXIT) echo failed ;;
*) echo running ;;
esac

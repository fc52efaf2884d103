#!/bin/sh
# bsub, printing the job's number alone.
answer=$(bsub "$@") || exit
echo "$answer" | sed -n 's/^Job <\([0-9]*\)>.*/\1/p'

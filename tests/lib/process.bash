# process.bash - time and processes, for tests and for what runs in the guests of tests/pair
# shellcheck shell=bash
# shellcheck disable=SC2034 # who loads it uses what is set here

# Sets now_ms.
read_clock() {
  local us=${EPOCHREALTIME/[.,]/}
  now_ms=$((us / 1000))
}

# A process that ended counts as gone before bash has taken note of it, for which it may take its time.
is_gone() {
  local stat
  { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return 0
  stat=${stat##*) }
  [ "${stat%% *}" = Z ]
}

# PID - what its threads wait for, as far as the system tells
show_process() {
  local task
  for task in /proc/"$1"/task/*; do
    echo "---- $task: $(grep -s State "$task/status") in $(cat "$task/wchan" 2> /dev/null)"
    cat "$task/stack" 2> /dev/null || true
  done
}

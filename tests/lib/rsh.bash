# rsh.bash - `write -e` with a far end on this host. To be loaded after common.bash.
# shellcheck shell=bash
# shellcheck disable=SC2016 # code for another shell
# shellcheck disable=SC2034,SC2154 # the tests use what is set here; common.bash sets what is used

RSH_TIMEOUT_MS=10000 # of those in the background
RSH_SLACK_MS=2000

# The far end is the directory far, and ./rsh reaches it as ssh does: HOST is dropped, and a shell there is
# given the other words as one line, which it adds to lines. Each rdmaput there, the program, leaves its
# process id in far-pids.
setup_rsh() {
  ulimit -l unlimited 2> /dev/null || true
  unset RDMAPUT_SECRET_FILE
  export RDMAPUT
  mkdir far bin
  : > far-pids
  program=$PWD/bin/rdmaput
  printf '%s\n' '#!/bin/sh' "echo \$\$ >> '$PWD/far-pids'" "exec '$RDMAPUT' \"\$@\" --bind $addr" > bin/rdmaput
  chmod +x bin/rdmaput
  make_rsh rsh 'echo "$*" >> "$here/lines"' shift 'cd "$here/far"' 'exec sh -c "$*"'
}

# NAME LINE... - a script that -e may name; $here is the test's directory
make_rsh() {
  printf '%s\n' '#!/bin/sh' "here='$PWD'" "${@:2}" > "$1"
  chmod +x "$1"
}

# ARG... - writes by ./rsh, unless there is another -e among them
put() { rdmaput write -e ./rsh --remote-program "$program" "$@"; }

# NAME ARG... - the same in the background; sets client_pid, client_err
start_put() {
  start_process "$1" "$RDMAPUT" write --timeout ${RSH_TIMEOUT_MS}ms -e ./rsh --remote-program "$program" "${@:2}"
  client_pid=$process_pid client_err=$process_err
}

# A write of a pipe to far/object, which has given 300,000 bytes and stays open: feed
start_fed_put() {
  printf 'what was there before' > far/object
  make_file source 300000
  mkfifo pipe
  input=pipe start_put put --trace - host/object
  exec {feed}> pipe
  cat source >&"$feed"
  wait_for_text "$client_err" 'received GRANT'
}

# The end of the client of start_put; sets process_status
wait_put() {
  within $((RSH_TIMEOUT_MS + RSH_SLACK_MS)) wait_process "$client_pid"
}

far_ends_are_gone() {
  local pid
  while read -r pid; do is_gone "$pid" || return 1; done < far-pids
}

# A server was started at the far end, and none is left, and the old object is there and nothing else.
assert_nothing_left() {
  [ -s far-pids ] || fail 'there was no far end'
  WAIT_LIMIT=5 wait_for far_ends_are_gone
  assert_equal "$(< far/object)" 'what was there before'
  assert_dir_holds far object
}

# common.bash - what the bats files share: servers and clients in the background, waits with
# deadlines, files to send.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the tests use what is set here
#
# The environment (tests/README.md): RDMAPUT, RDMAPUT_BUILD; RDMAPUT_TEST_ADDR and
# RDMAPUT_TEST_ADDR6, addresses that reach a device, found by `rdmaput devices` when not set;
# RDMAPUT_TEST_FABRIC, rxe or siw, or fake: no device at all (lib/fake-fabric.h);
# RDMAPUT_TEST_REQUIRE=1, what is missing is a failure.
#
# Every process a test starts in the background ends with the test, by process id. What it said is
# shown when the test failed. A sanitizer's report (status 98) fails the test.

bats_require_minimum_version 1.5.0
# shellcheck source=tests/lib/libraries.bash
source "${BASH_SOURCE[0]%/*}/libraries.bash"
load_libraries bats-support bats-assert bats-file
# shellcheck source=tests/lib/process.bash
source "${BASH_SOURCE[0]%/*}/process.bash"
# shellcheck source=tests/lib/documents.bash
source "${BASH_SOURCE[0]%/*}/documents.bash"

: "${RDMAPUT:?is to be the path of the program}"
ulimit -c 0
export LC_ALL=C

WAIT_LIMIT=30 # seconds: how long the waits below wait unless told
addr='' addr6='' fabric=''
fabric_threads=0 # of each process, for the fabric itself
background_pids=()

setup() { common_setup; }
teardown() { common_teardown; }
teardown_file() { check_told; }

# For files with a setup or teardown of their own. The test runs in its own directory.
common_setup() {
  cd "$BATS_TEST_TMPDIR" || return
  mounted=()
  documents=$BATS_TEST_TMPDIR.documents
  mkdir -m 1777 "$documents"
  # What naps read from: a pipe that nobody writes to.
  exec {nap_fd}<> <(:)
}

common_teardown() {
  local pid directory status=0
  for pid in "${background_pids[@]}"; do
    end_process "$pid" || status=1
  done
  if [ "${BATS_TEST_COMPLETED-}" = 1 ]; then check_documents || status=1; fi
  # Before anything of the test's directory is removed.
  for directory in "${mounted[@]}"; do
    umount "$directory" || status=1
  done
  if [ "${BATS_TEST_COMPLETED-}" != 1 ] || [ $status -ne 0 ]; then
    show_files "$BATS_TEST_TMPDIR"/.bg-*.out "$BATS_TEST_TMPDIR"/.bg-*.err
  else
    # Room for the next one, where all of it is in memory.
    rm -rf "${BATS_TEST_TMPDIR:?}"/* "$documents" 2> /dev/null || true
  fi
  return $status
}

# PID - ends a process of start_process: TERM, then KILL; 1 when a sanitizer had reported
end_process() {
  local status=0
  kill -CONT "$1" 2> /dev/null || true
  kill -TERM "$1" 2> /dev/null || true
  WAIT_LIMIT=3 wait_until is_gone "$1" || kill -KILL "$1" 2> /dev/null || true
  wait "$1" 2> /dev/null || status=$?
  note_end "$1" $status
  if [ $status -eq 98 ]; then
    echo "process $1 ended with a sanitizer's report"
    return 1
  fi
}

# FILE... - their names and contents, where they are not empty
show_files() {
  local file
  for file; do
    [ -s "$file" ] || continue
    echo "---- ${file##*/}"
    head -c 4000 "$file"
  done
}

# ---- what a test needs ----------------------------------------------------------------------

# REASON - the test cannot run here: it is skipped, or fails where nothing may be missing
lack() {
  if [ "${RDMAPUT_TEST_REQUIRE-}" = 1 ]; then fail "$1, and RDMAPUT_TEST_REQUIRE is set"; fi
  skip "$1"
}

# NAME... - commands
need_command() {
  local name
  for name; do
    command -v "$name" > /dev/null || lack "no $name"
    # The leak check needs to be what strace is already.
    if [ "$name" = strace ]; then export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0; fi
  done
}

# Whether the program is built with a sanitizer, and takes its time.
is_sanitized() { grep -qs -e __asan_init -e __tsan_init "$RDMAPUT"; }

# What an ordinary user cannot do at all.
need_root() { [ "$EUID" -eq 0 ] || skip "only root can $1"; }

# REASON - what may harm the system is for guests of scripts/rxe-vm, which are thrown away
need_guest() { [ -e /.rxe-vm/started ] || skip "no guest, and $1"; }

# DIRECTORY MOUNT-ARG... - makes it, and mounts what the arguments say there until the end of the test
mount_at() {
  need_root mount
  mkdir -p "$1"
  mount "${@:2}" none "$1"
  mounted+=("$PWD/$1")
}

# Sets addr, addr6 (may stay empty) and fabric; skips, or fails when a device is required.
need_device() {
  addr=${RDMAPUT_TEST_ADDR-} addr6=${RDMAPUT_TEST_ADDR6-} fabric=${RDMAPUT_TEST_FABRIC-}
  if [ "$fabric" = fake ]; then use_fake_fabric roce; fi
  if [ -z "$addr" ]; then find_device; fi
  [ -n "$addr" ] || lack "no RDMA device"
}

# KIND - from here on the test's processes have lib/fake-fabric.h's device, as roce or iwarp. Sets addr, 127.0.0.1
# unless it is set, and fabric, to what the kind is like.
use_fake_fabric() {
  fabric_threads=1
  addr=${addr:-127.0.0.1} fabric=rxe
  if [ "$1" = iwarp ]; then fabric=siw; fi
  export FAKE_FABRIC_KIND=$1 FAKE_FABRIC_REPORT=$PWD/.bg-fabric-report
  export LD_PRELOAD=$RDMAPUT_BUILD/tests/lib/fake-fabric.so
  export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0
}

# COUNT - so many processes have used the fake fabric, and destroyed all they made
assert_all_destroyed() {
  run grep -c ': nothing$' "$FAKE_FABRIC_REPORT"
  assert_output "$1"
  run grep -v ': nothing$' "$FAKE_FABRIC_REPORT"
  assert_output ''
}

# The first device with an IPv4 address, of $fabric when that is set.
find_device() {
  local key value found='' wanted=$fabric
  while read -r key value; do
    case $key in
      kind) if [ "$value" = iWARP ]; then found=siw; else found=rxe; fi ;;
      address)
        if [ "$found" != "${wanted:-$found}" ]; then continue; fi
        case $value in
          fe80:*) ;;
          *:*) if [ "$found" = "$fabric" ]; then addr6=${addr6:-$value}; fi ;;
          *) if [ -z "$addr" ]; then addr=$value fabric=$found; fi ;;
        esac ;;
    esac
  done < <("$RDMAPUT" devices 2> /dev/null)
}

need_ipv6() {
  need_device
  [ -n "$addr6" ] || lack "no IPv6 address reaches the RDMA device"
}

# Sets unknown_status: how a write to a host ends whose name nobody has. 75: no name service answers, either.
find_unknown_status() {
  need_command perl
  unknown_status=69
  perl -MSocket=getaddrinfo,EAI_AGAIN -e '($e) = getaddrinfo("no-such-host.invalid", "1"); exit($e == EAI_AGAIN)' ||
    unknown_status=75
}

# NAME - prints a limit of the device behind $addr, such as max_sge
device_limit() {
  "$RDMAPUT" devices | awk -v limit="$1" -v addr="$addr" '
    /^[^ ]/ { mine = 0 }
    $1 == "address" && $2 == addr { mine = 1 }
    mine && $1 == limit { print $2; exit }'
}

# FUNCTION NTH FILE COMMAND... - runs it, and its NTH call of FUNCTION for FILE fails (fail-nth.c)
with_failure() {
  LD_PRELOAD=$RDMAPUT_BUILD/tests/lib/fail-nth.so${LD_PRELOAD:+:$LD_PRELOAD} FAIL_CALL=$1 FAIL_NTH=$2 FAIL_FILE=$3 \
    ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} "${@:4}"
}

# ---- waiting --------------------------------------------------------------------------------

# SECONDS - without a fork
nap() { read -rt "$1" -u "$nap_fd" || true; }

# COMMAND... - repeats it until it succeeds; 1 after WAIT_LIMIT seconds
wait_until() {
  local end
  read_clock
  end=$((now_ms + WAIT_LIMIT * 1000))
  until "$@"; do
    read_clock
    [ "$now_ms" -lt $end ] || return 1
    nap 0.02
  done
}

# COMMAND... - as wait_until, and the test fails at the limit
wait_for() { wait_until "$@" || fail "waited $WAIT_LIMIT s for: $*"; }

# FILE TEXT - waits until a line of FILE holds TEXT
wait_for_text() { wait_for has_text "$@"; }
has_text() {
  local text=''
  [ -e "$1" ] || return 1
  IFS= read -rd '' text < "$1" || true
  [[ $text == *"$2"* ]]
}

exists() { [ -e "$1" ]; }
is_absent() { [ ! -e "$1" ]; }

# MS COMMAND... - fails when COMMAND, which may be `run ...`, takes longer; sets elapsed_ms
within() {
  local within_start within_status=0
  read_clock
  within_start=$now_ms
  "${@:2}" || within_status=$?
  read_clock
  elapsed_ms=$((now_ms - within_start))
  [ $elapsed_ms -le "$1" ] || fail "took $elapsed_ms ms, and $1 were allowed: ${*:2}"
  return $within_status
}

# TEXT - goes into the log: how long a fault took to end what
note_deadline() { echo "# deadline: $fabric: $BATS_TEST_DESCRIPTION: $1" >&3; }

# ---- processes ------------------------------------------------------------------------------

# ARG... - the program; for `run rdmaput ARG...` too
rdmaput() { run_program "$RDMAPUT" "$@"; }

# COMMAND... - runs it, killed after ${RUN_LIMIT:-60} seconds (status 124). (timeout(1) would do, but in a guest each
# exec takes its time.)
run_program() {
  local pid status=0
  exec_quietly "$@" <&0 &
  pid=$!
  if ! WAIT_LIMIT=${RUN_LIMIT:-60} wait_until is_gone "$pid"; then
    echo "killed after ${RUN_LIMIT:-60} s: $*" >&2
    kill -KILL "$pid"
    return 124
  fi
  wait "$pid" || status=$?
  note_end "$pid" $status
  return $status
}

# NAME COMMAND... - runs it in the background, with standard input from ${input:-/dev/null}; its
# output goes to .bg-NAME.out and .bg-NAME.err (or ${errors}), whose paths are in process_out and
# process_err. Sets process_pid. To be called without `run`.
start_process() {
  process_out=$BATS_TEST_TMPDIR/.bg-$1.out process_err=${errors:-$BATS_TEST_TMPDIR/.bg-$1.err}
  # What another one of that name has said is not taken for its own, which begins later.
  : > "$process_out"
  if [ -z "${errors-}" ]; then : > "$process_err"; fi
  # With job control, as otherwise a background process ignores SIGINT.
  set -m
  exec_quietly "${@:2}" < "${input:-/dev/null}" > "$process_out" 2> "$process_err" &
  process_pid=$!
  set +m
  background_pids+=("$process_pid")
}
# In the child: without the files of bats, which would wait for it, nap's pipe, and what a test feeds a
# client by: start_slow_client's, and feed.
exec_quietly() {
  exec 3>&- 4>&- 7>&- {nap_fd}>&-
  if [ -n "${feed-}" ]; then exec {feed}>&-; fi
  want_document "$@"
  exec "${wanted[@]}"
}

# ---- documents ------------------------------------------------------------------------------
# What every process of the program tells with --json-file: $documents/PID, with the command line in
# PID.words and the exit status in PID.status. They are beside the test's directory, where no test looks.

# COMMAND... - sets wanted: the same, and where that runs a command of the program, with --json-file. In the
# child, which is about to become it.
want_document() {
  local at words
  wanted=("$@")
  for ((at = 1; at < $#; at++)); do
    if [ "${*:at:1}" != "$RDMAPUT" ]; then continue; fi
    words=("${@:at+1}")
    [[ ${words-} =~ ^[a-z]+$ && " ${words[*]} " != *' '@(--json*|--format=json|--help|--usage|--version|-V)' '* ]] || return 0
    wanted=("${@:1:at}" "${words[0]}" --json-file "$documents/$BASHPID" "${words[@]:1}")
    printf '\t%s' "${words[@]//[[:cntrl:]]/?}" > "$documents/$BASHPID.words"
    return
  done
}

# PID STATUS - it has ended
note_end() {
  local note=$documents/$1
  if [ -e "$note.words" ] && [ ! -e "$note.status" ]; then echo "$2" > "$note.status"; fi
}

# 1 when a document of the test is not as the schema, or the end of its process, has it. In a guest, where jq takes
# half a second, all of a file's wait until its end.
check_documents() {
  set -- "$documents"/*.words
  exists "$1" || return 0
  list_documents >> "$BATS_FILE_TMPDIR/told"
  [ -e /.rxe-vm/started ] || check_told
}
check_told() {
  local faults
  [ -e "$BATS_FILE_TMPDIR/told" ] || return 0
  if ! command -v jq > /dev/null && [ "${RDMAPUT_TEST_REQUIRE-}" != 1 ]; then return 0; fi
  faults=$(find_document_faults < "$BATS_FILE_TMPDIR/told") || faults+=' (jq failed)'
  rm "$BATS_FILE_TMPDIR/told"
  [ -n "$faults" ] || return 0
  echo "documents: $faults"
  return 1
}
list_documents() {
  local words note line
  for words in "$documents"/*.words; do
    note=${words%.words}
    [ -e "$note.status" ] || continue
    read -r line < "$note.status"
    printf 'process\t%s\t%s' "$line" "$BATS_TEST_DESCRIPTION"
    IFS= read -r line < "$words" || true
    printf '%s\n' "$line"
    while IFS= read -r line || [ -n "$line" ]; do printf '%s\n' "$line"; done 2> /dev/null < "$note"
  done
}

# PID [SECONDS] - waits for its end; sets process_status (128 + N when signal N ended it)
wait_process() {
  if ! WAIT_LIMIT=${2:-$WAIT_LIMIT} wait_until is_gone "$1"; then
    show_process "$1"
    fail "process $1 did not end within ${2:-$WAIT_LIMIT} s"
  fi
  process_status=0
  wait "$1" || process_status=$?
  note_end "$1" $process_status
  [ $process_status -ne 98 ] || fail "process $1 ended with a sanitizer's report"
}

# [ARG...] - `rdmaput serve --port 0 --bind $addr ARG...` in the background, once it is ready. Sets
# dest (its first ADDR:PORT), port, server_pid, server_out, server_err, ready_file. With
# server_bind='' it listens on all addresses, else on $server_bind. Several may run.
start_server() {
  local number=${#background_pids[@]}
  local bind=${server_bind-$addr}
  launch_server "server$number" ${bind:+--bind "$bind"} "$@"
  await_server
}

# NAME [ARG...] - as start_server, without --bind, and without waiting: await_server does.
launch_server() {
  ready_file=$BATS_TEST_TMPDIR/.bg-$1.ready
  start_process "$1" "${server_wrapper[@]}" "$RDMAPUT" serve --port 0 --ready-file "$ready_file" "${@:2}"
  server_pid=$process_pid server_out=$process_out server_err=$process_err
}
# A command that runs the server, such as (setpriv --reuid=65534).
server_wrapper=()

await_server() {
  wait_until is_ready_or_gone || fail "the server was not ready within $WAIT_LIMIT s"
  [ -e "$ready_file" ] || fail "the server ended at once: $(< "$server_err")"
  read -r dest < "$ready_file"
  port=${dest##*:}
}
is_ready_or_gone() { [ -e "$ready_file" ] || is_gone "$server_pid"; }

# Sets exchange, the TCP port of the last server's --exchange-port
find_exchange() {
  [[ $(< "$server_err") =~ exchange\ on\ TCP\ port\ ([0-9]+) ]] || fail "no port in: $(< "$server_err")"
  exchange=${BASH_REMATCH[1]}
}

# [SECONDS] - waits for the end of the last server; sets server_status
wait_server() {
  wait_process "$server_pid" "$@"
  server_status=$process_status
}

# Sets pinned, threads and files: KiB that the kernel counts as pinned for the last server,
# and what it has
read_server() {
  local key value
  while read -r key value _; do
    case $key in
      VmPin:) pinned=$value ;;
      Threads:) threads=$value ;;
    esac
  done < /proc/"$server_pid"/status
  files=(/proc/"$server_pid"/fd/*)
}
# THREADS - it has so many, as before it served anybody
is_idle() {
  read_server
  [ "$threads" -eq "$1" ]
}

# [SIGNAL] - ends the last server, which is idle: status 0
stop_server() {
  kill -"${1:-TERM}" "$server_pid"
  wait_server 10
  assert_equal "$server_status" 0
}

# ARG... - `rdmaput write --trace -t $dest ARG... FIFO` in the background, in client_pid, with its
# messages in client_err, once the server serves it. It goes on until `end_slow_client`; what is
# written to descriptor 7 until then is sent after "begin" and a line end.
start_slow_client() {
  local fifo=$BATS_TEST_TMPDIR/.bg-fifo${#background_pids[@]}
  mkfifo "$fifo"
  start_process "client${#background_pids[@]}" "$RDMAPUT" write --trace -t "$dest" "$@" "$fifo"
  client_pid=$process_pid client_err=$process_err
  exec 7> "$fifo"
  echo begin >&7
  wait_for_text "$client_err" 'received GRANT'
}

# Lets it come to its end; sets client_status.
end_slow_client() {
  exec 7>&-
  wait_process "$client_pid"
  client_status=$process_status
}

# ---- files ----------------------------------------------------------------------------------

# NAME BYTES - a file of random bytes
make_file() { head -c "$2" /dev/urandom > "$1"; }

assert_same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }

# DIR [NAME...] - it holds these files and no others; hidden ones count
assert_dir_holds() {
  local found shopts
  shopts=$(shopt -p dotglob nullglob || true)
  shopt -s dotglob nullglob
  found=("$1"/*)
  eval "$shopts"
  assert_equal "${found[*]#"$1"/}" "${*:2}"
}

# STATUS [TEXT...] - after `run`: the status, and each TEXT is part of what was printed
assert_run() {
  local text
  assert_equal "$status" "$1"
  for text in "${@:2}"; do
    assert_output --partial "$text"
  done
}

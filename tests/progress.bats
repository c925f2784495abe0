# progress.bats - how far a transfer is, for people and for programs; and what held it back
# bats file_tags=rxe,storage
# shellcheck disable=SC2016,SC2154 # for another shell; variables of lib/common.bash
load lib/common

setup() {
  common_setup
  need_device
  mkdir out
}

# WORD... - `rdmaput WORD...` on a terminal of 60 columns, whose output is then in the file terminal; its input
# comes from descriptor 7. With `before`, what the shell there does first, and `after`, what behind the command,
# which may not be all of it
start_on_terminal() {
  mkfifo feed
  {
    printf 'export TERM=%s; stty cols 60; %s' "${kind-xterm}" "${before-exec}"
    printf ' %q' "$RDMAPUT" "$@"
    echo " < feed ${after-}"
  } > on-terminal
  start_process terminal script -qefc 'bash on-terminal' terminal
  exec 7<> feed
}
shows() { has_text terminal "$1"; }

# bats test_tags=fast,threads
@test "a terminal shows bytes and rate of a pipe, and the line goes in the end" {
  start_server out/f
  start_on_terminal write - "$dest"
  head -c 3000000 /dev/urandom | tee sent >&7 || fail "$(cat -v terminal)"
  wait_for shows ' MiB, '
  printf 'more' | tee -a sent >&7
  exec 7>&-
  wait_process "$process_pid"
  assert_equal "$process_status" 0
  assert_same sent out/f
  [[ $(< terminal) == *$'\r\033[K'*' MiB, '*'/s'*$'\r\033[K'*'delivered '* ]] || fail "$(cat -v terminal)"
  [[ $(< terminal) != *%*$'\r\033[K'*delivered* ]] || fail "$(cat -v terminal)"
  stop_server
}

@test "a file's progress has a percentage and ends with the message of a failure below a clean line" {
  start_server out/f
  mkfifo slow
  make_file first 3000000
  start_on_terminal write --timeout 3s first@ slow@+1M "$dest"
  exec 8<> slow
  wait_for shows ' 71 %'
  kill -KILL "$server_pid"
  wait_process "$process_pid" 15
  assert_equal "$process_status" 75
  exec 8>&-
  [[ $(< terminal) == *$'\r\033[K'*' 71 %'*$'\r\033[K'*'rdmaput: '* ]] || fail "$(cat -v terminal)"
}

@test "nothing is shown where standard error is no terminal, with -q, or with --progress=never" {
  start_server out/f
  start_slow_client
  nap 1.3
  end_slow_client
  assert_equal "$client_status" 0
  run grep -c 'B, .*B/s$' "$client_err"
  assert_output 0
  start_on_terminal write --progress=never - "$dest"
  echo >&7
  nap 1.3
  exec 7>&-
  wait_process "$process_pid"
  assert_equal "$process_status" 0
  [[ $(< terminal) != *$'\033'* ]] || fail "$(cat -v terminal)"
  stop_server
}

@test "a job in the background, and a dumb terminal, have no line drawn" {
  start_server out/f
  before='set -m;' after='& wait $!' start_on_terminal write --progress-fd 9 - "$dest" 9> told
  echo begin >&7
  wait_for test -s told
  exec 7>&-
  wait_process "$process_pid"
  assert_same <(echo begin) out/f
  [[ $(< terminal) == *delivered* && $(< terminal) != *$'\033'* ]] || fail "$(cat -v terminal)"
  rm feed
  kind=dumb start_on_terminal write --progress=always - "$dest"
  echo begin >&7
  wait_for shows ' B, '
  exec 7>&-
  wait_process "$process_pid"
  [[ $(< terminal) == *delivered* && $(< terminal) != *$'\033'* ]] || fail "$(cat -v terminal)"
  stop_server
}

@test "a terminal that is stopped, or a pipe that nobody reads, does not hold a transfer" {
  local full
  start_server out/f
  before='perl -MPOSIX -e "tcflow(2, TCOOFF)"; exec' start_on_terminal write --progress-fd 9 - "$dest" 9> told
  exercise
  kill -TERM "$process_pid"
  wait_process "$process_pid"
  rm feed told out/f
  mkfifo feed unread
  exec {full}<> unread
  head -c 64K /dev/zero >&"$full"
  input=feed errors=unread start_process unread "$RDMAPUT" write --progress=always --progress-fd 9 - "$dest" 9> told
  exec 7> feed
  exercise
  exec {full}>&-
  wait_process "$process_pid"
  assert_equal "$process_status" 0
  stop_server
}
# With input on descriptor 7, and progress in the file told: what comes after that was shown arrives.
exercise() {
  echo begin >&7
  wait_for test -s told
  echo end >&7
  exec 7>&-
  wait_for test -e out/f
  assert_same <(printf '%s\n' begin end) out/f
}

@test "--progress=always prints a line each second where there is no terminal" {
  start_server out/f
  start_slow_client --progress=always
  wait_for_text "$client_err" '6 B, '
  end_slow_client
  assert_equal "$client_status" 0
  [[ $(< "$client_err") != *$'\033'* ]]
  stop_server
}

# bats test_tags=fast
@test "--progress-fd has lines of JSON, and the last one has all" {
  make_file a 1200000
  start_server out/f
  rdmaput write --progress-fd 9 a "$dest" 9> told
  jq -se 'length >= 1 and (last | .acknowledged_bytes == 1200000 and .total_bytes == 1200000 and .objects_committed == 1)' told
  stop_server
  run --separate-stderr rdmaput write --progress-fd 77 a "$dest"
  assert_equal "$status" 64
  run --separate-stderr rdmaput write --progress-fd 9 a "$dest" 9< told
  assert_equal "$status" 64
  run --separate-stderr rdmaput write --progress=sometimes a "$dest"
  assert_equal "$status" 64
}

@test "of holes that are sent as zeros the total tells, too" {
  truncate -s 1M holes
  printf x >> holes
  head -c 2M /dev/zero > image
  start_server --in-place image
  rdmaput write --progress-fd 9 holes "$dest" 9> told
  jq -se 'last | .acknowledged_bytes == 1048577 and .total_bytes == 1048577' told
  stop_server
}

@test "a reader of --progress-fd that leaves, or reads nothing, does not end or hold a transfer" {
  make_file a 1200000
  start_server out/f
  mkfifo told
  exec 9<> told
  exec 8> told
  # Full, as far as a line is concerned.
  head -c 65536 /dev/zero >&8
  rdmaput write --progress-fd 8 a "$dest"
  rdmaput write --progress-fd 8 a "$dest" 8> >(:)
  exec 9>&- 8>&-
  assert_same a out/f
  stop_server
}

@test "what held a transfer back is said" {
  start_server out/f
  start_slow_client
  nap 0.5
  end_slow_client
  assert_equal "$client_status" 0
  has_text "$client_err" 'held back most by the source: waited for the source' || fail "$(< "$client_err")"
  stop_server
}

@test "completions of a post do not stand behind its line" {
  start_server --region 2M --ticket ticket
  start_on_terminal post --progress=always - "$(< ticket)"
  echo begin >&7
  wait_for shows ' B, '
  echo end >&7
  exec 7>&-
  wait_process "$process_pid"
  assert_equal "$process_status" 0
  [[ $(< terminal) == *'B/s'$'\r\033[K''wr_id=1 '* && $(< terminal) != *B/swr_id* ]] || fail "$(cat -v terminal)"
  stop_server
}

# bats test_tags=threads
@test "post shows how far it is, too" {
  make_file a 1200000
  start_server --region 2M --ticket ticket
  rdmaput post --progress-fd 9 a "$(< ticket)" 9> told
  jq -se 'last | .acknowledged_bytes == 1200000 and .total_bytes == 1200000' told
  rdmaput post --progress-fd 9 - "$(< ticket)" < a 9> told
  jq -se 'last | .acknowledged_bytes == 1200000' told
  stop_server
}

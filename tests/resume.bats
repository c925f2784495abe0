# resume.bats - `write --resume` and `serve --keep-partial`: what broke is gone on from, and what
# came of it is the source
# bats file_tags=siw,storage
# shellcheck disable=SC2030,SC2031 # a test's own limits end with it
# shellcheck disable=SC2016 # awk's own
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

load lib/common

SIZE=$((6 << 20)) # so much that it breaks in the middle, as start_client has it

# Random bytes take their time in a guest.
setup_file() { head -c $((2 * SIZE)) /dev/urandom > "$BATS_FILE_TMPDIR/random"; }

setup() {
  common_setup
  need_device
  mkdir out
  mkfifo trace
}

# ---- clients that break ------------------------------------------------------------------------

# NAME ARG... - `rdmaput write --resume ARG... $dest/NAME` in the background, in client_pid; $dest
# alone without NAME. Its trace comes through a pipe of four pages, which holds it up where nobody reads:
# it cannot complete before it is to break.
start_client() {
  local hold
  exec {hold}<> trace
  # F_SETPIPE_SZ
  perl -e 'fcntl(STDIN, 1031, 16384) or die "the pipe: $!\n"' <&"$hold"
  errors=trace start_process "client${#background_pids[@]}" \
    "$RDMAPUT" write --trace --resume -t "$dest${1:+/$1}" "${@:2}"
  client_pid=$process_pid
  exec {trace}< trace {hold}>&-
  written=0 unread=''
}

# BYTES - reads the trace until BYTES were written, or to its end; adds what was written with RDMA to
# written
follow() {
  # Without the trap that bats has for each command: there are many.
  set +T
  read_trace "$1"
  set -T
}
read_trace() {
  local block status=0
  # In blocks, as bash reads lines of a pipe byte by byte.
  while [ "$written" -lt "$1" ] && [ $status -eq 0 ]; do
    IFS= read -rt "$WAIT_LIMIT" -N 2048 block <&"$trace" || status=$?
    unread+=$block
    while [[ $unread == *': RDMA write of '*' bytes,'* ]]; do
      unread=${unread#*': RDMA write of '}
      written=$((written + ${unread%%' bytes,'*}))
      unread=${unread#*' bytes,'}
    done
  done
  [ $status -le 128 ] || fail "no trace for $WAIT_LIMIT s, after $written bytes: $unread"
}

# Reads to the end of the client; sets client_status, and said: what is no trace.
end_client() {
  said=$(unread=$unread timeout $((2 * WAIT_LIMIT)) awk '
    NR == 1 { $0 = ENVIRON["unread"] $0 }
    sub(/.*: RDMA write of /, "") { written += $1; next }
    !/: (sending|received|completion of) |, gather entries [0-9]+, to 0x|^ gather entries/
    END { print written + 0 }' <&"$trace")
  written=$((written + ${said##*$'\n'}))
  exec {trace}<&-
  wait_process "$client_pid"
  client_status=$process_status
}

# NAME - a file of SIZE bytes
make_source() { tail -c +$((++source_count)) "$BATS_FILE_TMPDIR/random" | head -c $SIZE > "$1"; }
source_count=0

# BYTES SIGNAL NAME ARG... - a client that SIGNAL ends once it has written BYTES. The session of
# it has ended then; sets kept, what it has left, and partial.
break_client() {
  local ended
  ended=$(count_ended)
  start_client "${@:3}"
  follow "$1"
  kill "-$2" "$client_pid"
  end_client
  assert_equal "$client_status" $((128 + $(kill -l "$2")))
  wait_for has_ended $((ended + 1))
  find_partials
  assert_equal "${#partials[@]}" 1
  partial=${partials[0]} kept=$(stat -c %s "${partials[0]}")
}

# The sessions of the last server that broke.
count_ended() {
  local lines
  mapfile -t lines < "$server_err"
  lines=("${lines[@]/*bytes were stored*/ended}")
  local words=" ${lines[*]} " left
  left=${words//ended/}
  echo $(((${#words} - ${#left}) / 5))
}
has_ended() { [ "$(count_ended)" -ge "$1" ]; }

# NAME ARG... - a client that completes
complete() {
  start_client "$@"
  end_client
  [ "$client_status" -eq 0 ] || fail "status $client_status of: write --resume $* ($said)"
}

# [DIR] - sets partials: what is kept in it
find_partials() {
  local shopts
  shopts=$(shopt -p nullglob || true)
  shopt -s nullglob
  partials=("${1-out}"/.*.rdmaput-part-*)
  eval "$shopts"
}

# ---- breaking ------------------------------------------------------------------------------------

@test "an object that broke again and again is whole, and little of it was sent twice" {
  local breaks=30 size=$((64 << 20)) kinds=(client-KILL server-KILL client-INT server-TERM) points=()
  local i point sent=0 before kind bytes once
  while cat "$BATS_FILE_TMPDIR/random"; do :; done | head -c $size > a
  RANDOM=7
  # Not so near to the end that it might be reached first.
  for ((i = 0; i < breaks; i++)); do points+=($(((RANDOM << 15 | RANDOM) % (size - (6 << 20))))); done
  mapfile -t points < <(printf '%s\n' "${points[@]}" | sort -n)
  start_server out
  kept=0
  for i in "${!points[@]}"; do
    before=$kept kind=${kinds[i % 4]}

    start_client a a
    # Where that much is there already, it breaks at the first write.
    point=$((points[i] - kept))
    follow $((point > 1 ? point : 1))
    "break_$kind"
    sent=$((sent + written))
    [ $written -le $((size - before)) ] || fail "$written bytes sent, after $before were stored"
    find_partials
    assert_equal "${#partials[@]}" 1
    kept=$(stat -c %s "${partials[0]}")
    bytes=0
    if [[ $said =~ ([0-9]+)' bytes were acknowledged' ]]; then bytes=${BASH_REMATCH[1]}; fi
    [ "$kept" -ge $((before + bytes)) ] ||
      fail "$kept bytes kept of $before, and $bytes that were acknowledged ($kind)"
    once=$((kept - before))
    # What was under way.
    [ $((written - once)) -le $((size / 512)) ] || fail "$written bytes sent for $once ($kind)"
  done
  complete a a
  sent=$((sent + written))
  assert_equal $written $((size - kept))
  assert_same a out/a
  assert_dir_holds out a
  echo "$sent bytes sent for $size"
  [ $sent -ge $size ] && [ $sent -le $((size * 11 / 10)) ]
}
# The ends that they come to. All leave the server, or its follower, ready for the next client.
break_client-KILL() { break_by_signal KILL; }
break_client-INT() { break_by_signal INT; }
break_by_signal() {
  local ended
  ended=$(count_ended)
  kill "-$1" "$client_pid"
  end_client
  assert_equal "$client_status" $((128 + $(kill -l "$1")))
  wait_for has_ended $((ended + 1))
}
break_server-KILL() {
  kill -KILL "$server_pid"
  end_client
  assert_equal "$client_status" 75
  wait_server
  start_server --port "$port" out
}
break_server-TERM() {
  kill -TERM "$server_pid"
  wait_for_text "$server_err" 'once more to abort'
  kill -TERM "$server_pid"
  end_client
  assert_equal "$client_status" 75
  wait_server
  assert_equal "$server_status" $((128 + 15))
  start_server --port "$port" out
}

# bats test_tags=fast
@test "what was stored is compared, and not sent again" {
  make_source a
  start_server out
  break_client 1000000 KILL a a
  [ "$kept" -gt 0 ] && [ "$kept" -lt $SIZE ]
  complete a a
  assert_equal $written $((SIZE - kept))
  assert_regex "$said" 'resumed: .* were there, .* were sent'
  assert_same a out/a
  assert_dir_holds out a
}

@test "a FILE, too, is gone on from, after a restart of its server" {
  make_source a
  echo old > out/f
  start_server out/f
  break_client 1000000 INT '' a
  assert_equal "$(< out/f)" old
  stop_server
  start_server out/f
  complete '' a
  assert_equal $written $((SIZE - kept))
  assert_same a out/f
  assert_dir_holds out f
}

@test "what is kept is hidden, its owner's alone, and no name that a client may use" {
  make_source a
  start_server out
  break_client 1000000 INT a a
  assert_equal "$(ls out)" ''
  assert_equal "$(stat -c %a "$partial")" 600
  run rdmaput write a "$dest/${partial#out/}"
  assert_run 64 'hidden files'
  assert_dir_holds out "${partial#out/}"
}

@test "without --resume nothing is kept" {
  truncate -s 64M a
  start_server out
  errors=trace start_process client "$RDMAPUT" write --trace --sparse=never a "$dest/a"
  client_pid=$process_pid
  exec {trace}< trace
  written=0 unread=''
  follow 1000000
  break_by_signal INT
  assert_dir_holds out
}

# bats test_tags=fast
@test "an object of which all is there but the commit needs none of it again" {
  make_source a
  start_server out
  break_client 1000000 INT a a
  cat a > "$partial"
  complete a a
  assert_equal $written 0
  assert_same a out/a
  assert_dir_holds out a
}

@test "what came of a source that cannot be read to its end is gone on from when it can" {
  local got=0
  make_source a
  start_server out
  # After 61 times 32 KiB.
  with_failure pread 62 a rdmaput write --resume a "$dest/a" 2> said || got=$?
  assert_equal $got 74
  find_partials
  assert_equal "${#partials[@]}" 1
  kept=$(stat -c %s "${partials[0]}")
  [ "$kept" -gt 1000000 ] || fail "kept $kept bytes"
  complete a a
  assert_equal $written $((SIZE - kept))
  assert_same a out/a
  assert_dir_holds out a
}

@test "an object breaks again while what was kept is compared, and nothing is lost" {
  make_source a
  start_server out
  # Where it was quicker than the signal, once more.
  for _ in {1..5}; do
    break_in_recall
    start_server out
    [ -e out/a ] || break
    rm out/a
  done
  complete a a
  assert_equal $written 0
  assert_same a out/a
}
break_in_recall() {
  break_client 1000000 INT a a
  cp a "$partial"
  start_client a a
  while [[ $REPLY != *'sending RECALL'* ]]; do
    IFS= read -rt "$WAIT_LIMIT" <&"$trace" || fail 'no RECALL'
  done
  kill -KILL "$server_pid"
  end_client
  wait_server
}

# ---- whose it is ---------------------------------------------------------------------------------

@test "another file of that name begins anew, and both complete" {
  make_source a
  make_source b
  start_server out
  break_client 1000000 INT x a
  local first=$partial first_kept=$kept ended
  ended=$(count_ended)
  start_client x b
  follow 1000000
  kill -INT "$client_pid"
  end_client
  wait_for has_ended $((ended + 1))
  find_partials
  assert_equal "${#partials[@]}" 2
  complete x a
  assert_equal $written $((SIZE - first_kept))
  assert_same a out/x
  assert_not_exist "$first"
  complete x b
  [ $written -lt $SIZE ]
  assert_same b out/x
  assert_dir_holds out x
}

@test "a source that was touched or written anew is sent anew" {
  local change stale=()
  make_source a
  make_source other
  start_server out
  for change in 'touch a' 'cat other > a'; do
    break_client 1000000 INT a a
    stale=("$partial")
    eval "$change"
    complete a a
    assert_equal $written $SIZE
    assert_same a out/a
    # It belongs to what is no more, and expires.
    assert_dir_holds out "${stale[0]#out/}" a
    rm "${stale[0]}"
  done
}

@test "what is kept of an object serves no other NAME" {
  make_source a
  start_server out
  break_client 1000000 INT one a
  # Where it is kept, too, as long as there is no d.
  complete d/one a
  assert_equal $written $SIZE
  assert_same a out/d/one
  complete one a
  assert_equal $written $((SIZE - kept))
  assert_same a out/one
  assert_dir_holds out d one
}

# ---- what happened to it meanwhile -----------------------------------------------------------------

# SENT - what is kept, by now damaged, is gone on from, or not: SENT bytes are sent
completes_with() {
  complete a a
  assert_equal "$damage: $written" "$damage: $1"
  assert_same a out/a
  assert_dir_holds out a
  rm out/a
  cp kept "$partial"
}

@test "what was damaged while it was kept is found out, and sent anew" {
  local damage
  make_source a
  start_server out
  break_client 1000000 INT a a
  cp "$partial" kept
  for damage in 0 $((kept - 1)); do
    printf '\\0%03o' $((~0x$(xxd -s "$damage" -l 1 -p kept) & 255)) > byte
    printf %b "$(< byte)" | dd of="$partial" bs=1 seek="$damage" conv=notrunc status=none
    completes_with $SIZE
  done
  damage='cut to half'
  truncate -s $((kept / 2)) "$partial"
  completes_with $((SIZE - kept / 2))
  damage='longer by zeros'
  truncate -s $((kept + 70000)) "$partial"
  completes_with $SIZE
  damage='longer by what comes next'
  head -c $((kept + 70000)) a > "$partial"
  completes_with $((SIZE - kept - 70000))
  damage='longer than the object'
  cat a kept > "$partial"
  completes_with 0
}

@test "bytes that got into a gap of what is kept do not show" {
  make_source a
  start_server out
  break_client 1500000 INT a a@+1000000=0 a@1000000=2000000
  { head -c 1000000 a; head -c 1000000 /dev/zero; tail -c +1000001 a; } > wanted
  printf x | dd of="$partial" bs=1 seek=1500000 conv=notrunc status=none
  complete a a@+1000000=0 a@1000000=2000000
  assert_same wanted out/a
  assert_dir_holds out a
}

@test "what is not the server's own is neither used nor harmed: 73" {
  make_source a
  echo precious > precious
  start_server out
  break_client 1000000 INT a a
  rm "$partial"
  ln -s ../precious "$partial"
  run rdmaput write --resume a "$dest/a"
  assert_run 73 "is not the server's"
  ln -f precious "$partial"
  run rdmaput write --resume a "$dest/a"
  assert_run 73 "is not the server's"
  assert_equal "$(< precious)" precious
  assert_dir_holds out "${partial#out/}"
}

# ---- --keep-partial --------------------------------------------------------------------------------

@test "what is kept expires while the server runs" {
  make_source a
  start_server --keep-partial 2s out
  break_client 1000000 INT a a
  read_clock
  local since=$now_ms
  wait_for is_absent "$partial"
  read_clock
  # It counts from when the session broke, which was a little earlier.
  [ $((now_ms - since)) -ge 1000 ] || fail "it went after $((now_ms - since)) ms"
  complete a a
  assert_equal $written $SIZE
  assert_dir_holds out a
}

@test "what has expired goes when a server starts, and nothing else" {
  make_source a
  start_server out
  break_client 1000000 INT old a
  local old=$partial
  touch -d '25 hours ago' "$old"
  mv "$old" moved
  break_client 1000000 INT new a
  mv moved "$old"
  stop_server
  touch -d '25 hours ago' out/.precious
  start_server out
  wait_for is_absent "$old"
  assert_dir_holds out "${partial#out/}" .precious
  stop_server

  touch -d '2 hours ago' "$partial"
  start_server --keep-partial 3h out/new
  assert_exist "$partial"
  stop_server
  start_server --keep-partial 1h out/new
  assert_not_exist "$partial"
}

@test "what a session is at does not expire" {
  make_source a
  start_server --keep-partial 1s out
  start_client a a
  follow 1000000
  kill -STOP "$client_pid"
  nap 2.5
  find_partials
  assert_equal "${#partials[@]}" 1
  kill -CONT "$client_pid"
  end_client
  assert_equal "$client_status" 0
  assert_same a out/a
  assert_dir_holds out a
}

# ---- two at once -----------------------------------------------------------------------------------

@test "while a session is at it a second one is told 75, and goes on once that is given up" {
  make_source a
  start_server --timeout 5s out
  start_client a a
  follow 1000000
  kill -STOP "$client_pid"
  run rdmaput write --resume a "$dest/a"
  assert_run 75 'another session is writing this object' 'hint: try again when it has ended'
  wait_for_text "$server_err" 'no sign of life'
  wait_for has_ended 1
  kill -KILL "$client_pid"
  end_client
  find_partials
  kept=$(stat -c %s "${partials[0]}")
  complete a a
  assert_equal $written $((SIZE - kept))
  assert_same a out/a
  assert_dir_holds out a
}

@test "a second session waits for a first that soon completes" {
  make_source a
  start_server --trace out
  start_client a a
  follow 1000000
  start_process second "$RDMAPUT" write --resume a "$dest/a"
  wait_for has_opened 2
  end_client
  assert_equal "$client_status" 0
  wait_process "$process_pid"
  assert_equal "$process_status" 0
  assert_same a out/a
  assert_dir_holds out a
}
has_opened() { [ "$(grep -c 'received OPEN$' "$server_err")" -ge "$1" ]; }

@test "right after a client was killed the next one goes on, or is told 75 for a moment" {
  local attempts=0 start
  make_source a
  start_server out
  start_client a a
  follow 1000000
  kill -KILL "$client_pid"
  read_clock
  start=$now_ms
  until [ $attempts -eq 5 ]; do
    attempts=$((attempts + 1))
    run rdmaput write --resume a "$dest/a"
    if [ "$status" -eq 0 ]; then break; fi
    assert_run 75 'another session is writing this object'
  done
  read_clock
  assert_equal "$status" 0
  echo "$attempts attempts, $((now_ms - start)) ms"
  [ $((now_ms - start)) -lt 10000 ]
  end_client
  assert_same a out/a
  assert_dir_holds out a
}

# ---- what cannot be resumed --------------------------------------------------------------------------

# bats test_tags=fast
@test "streams cannot be resumed: 64" {
  mkfifo pipe
  start_server out
  run rdmaput write --resume - "$dest/a" < /dev/null
  assert_run 64 'a stream cannot be resumed'
  run rdmaput write --resume /proc/version "$dest/a"
  assert_run 64 '/proc/version: a stream cannot be resumed'
  # shellcheck disable=SC2034 # only to be open
  exec {pipe}<> pipe
  run rdmaput write --resume pipe "$dest/a"
  assert_run 64 'pipe: a stream cannot be resumed'
  assert_dir_holds out
}

@test "places that keep nothing refuse with 69, and say what to do" {
  local place
  make_file a 100000
  make_file target 100000
  cp target before
  for place in '--region 1M' --discard - '--in-place target' ''; do
    # shellcheck disable=SC2086 # the words of it
    start_server $place
    run rdmaput write --resume a "$dest"
    if [ -n "$place" ]; then
      assert_run 69 'keeps nothing to resume from' 'hint: leave out --resume, or serve a FILE or DIR'
    else
      assert_run 69
    fi
    assert_equal "$(< "$server_out")" ''
  done
  assert_same before target
}

# ---- objects of every kind ---------------------------------------------------------------------------

@test "segments with gaps between them are gone on from" {
  local before
  cat "$BATS_FILE_TMPDIR"/random{,,} > a
  awk 'BEGIN { for (i = 0; i < 1000; i++) printf "a@%d+16000=%d\n", (i * 7919) % 29000000, i * 17000 + 500 }' > list
  start_server out
  break_client 3000000 INT a --segments-from list
  before=$written
  complete a --segments-from list
  # Eight chunks at most were under way: four slots of 16 KiB each here, and what was being stored.
  [ $((before + written)) -ge 16000000 ] && [ $((before + written)) -le $((16000000 + (1 << 17))) ] ||
    fail "$before and $written bytes were sent"
  run rdmaput write --segments-from list "$dest/whole"
  assert_run 0
  assert_same out/whole out/a
  assert_dir_holds out a whole
}

@test "a source with holes is gone on from, and its holes stay some" {
  local i
  truncate -s 30000000 a
  make_source data
  for i in {0..5}; do
    dd if=data of=a bs=64K skip=$((i * 16)) seek=$((i * 75)) count=16 conv=notrunc status=none
  done
  start_server out
  break_client 1500000 INT a a
  [ "$kept" -gt 4900000 ]
  local before=$written
  complete a a
  [ $((before + written)) -le $((SIZE + SIZE / 10)) ] || fail "$before and $written bytes were sent"
  assert_same a out/a
  [ "$(stat -c %b out/a)" -le $((SIZE / 512 + 1000)) ] || fail "$(stat -c %b out/a) blocks"
  assert_dir_holds out a
}

@test "of many objects the one that broke is gone on from, and those before it are sent again" {
  make_file f1 2000000
  make_source f2
  make_file f3 3
  start_server out
  start_client d/ f1 f2 f3
  follow 3500000
  kill -INT "$client_pid"
  end_client
  assert_equal "$client_status" 130
  wait_for_text "$server_err" 'interrupted by a signal'
  assert_same f1 out/d/f1
  find_partials out/d
  assert_equal "${#partials[@]}" 1
  kept=$(stat -c %s "${partials[0]}")
  complete d/ f1 f2 f3
  assert_equal $written $((2000000 + SIZE - kept + 3))
  local file
  for file in f1 f2 f3; do assert_same $file out/d/$file; done
  assert_dir_holds out/d f1 f2 f3
}

@test "a name in directories that are missing is gone on from; --preserve and --sync hold" {
  make_source a
  chmod 751 a
  touch -d '2001-02-03 04:05:06.789' a
  start_server out
  break_client 1000000 KILL d/e/a --preserve --sync a
  assert_not_exist out/d
  complete d/e/a --preserve --sync a
  assert_equal $written $((SIZE - kept))
  assert_same a out/d/e/a
  assert_equal "$(stat -c '%a %y' out/d/e/a)" "$(stat -c '%a %y' a)"
  assert_dir_holds out d
}

@test "with --no-clobber a new name is gone on from, and one that came meanwhile stays: 73" {
  make_source a
  start_server --no-clobber out
  break_client 1000000 INT a a
  echo meanwhile > out/a
  run rdmaput write --resume a "$dest/a"
  assert_run 73 'exists already'
  assert_equal "$(< out/a)" meanwhile
  rm out/a
  complete a a
  assert_equal $written $((SIZE - kept))
  assert_same a out/a
  assert_dir_holds out a
}

# post.bats - `rdmaput post`: one-sided writes into memory that a server, ours or a foreign one,
# exposes
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common

setup() {
  common_setup
  need_device
  ulimit -l unlimited 2> /dev/null || true # for regions
  ticket='' segments=()
}

# SIZE [ARG...] - a server of a region that is dumped to ./dump; sets ticket, remote_addr, rkey
start_region() {
  start_server --region "$1" --ticket ./ticket --dump ./dump "${@:2}"
  ticket=$(< ticket)
  IFS=, read -r _ _ _ remote_addr rkey _ <<< "$ticket"
}

# ARG... - post into the region by its ticket
post() {
  rm -f dump
  run --separate-stderr rdmaput post "$@" "$ticket"
  echo "$stderr"
}

# FILE [OFFSET] - the dump of the session just ended holds FILE there, and zeros elsewhere
assert_region_holds() {
  wait_for exists dump
  truncate -s "$(stat -c %s dump)" wanted
  dd if="$1" of=wanted bs=64K oflag=seek_bytes seek="${2:-0}" conv=notrunc status=none
  assert_same dump wanted
  rm wanted
}

# STATUS [TEXT...] - as assert_run, for what is on standard error
assert_failed() {
  local text
  assert_equal "$status" "$1"
  for text in "${@:2}"; do
    [[ $stderr == *"$text"* ]] || fail "standard error does not hold '$text': $stderr"
  done
}

assert_last_line() { assert_equal "${lines[-1]}" "$1"; }

# [ARG...] - a listener that is not ours; sets remote_addr, rkey, dest, foreign_pid
start_foreign() {
  start_process foreign "$RDMAPUT_BUILD/tests/foreign-listener" -b "$addr" "$@"
  foreign_pid=$process_pid
  wait_for_text "$process_out" ' '
  read -r _ port remote_addr rkey _ < "$process_out"
  dest=$addr:$port
}

stop_foreign() {
  kill "$foreign_pid" 2> /dev/null || true
  wait_process "$foreign_pid"
  assert_equal "$process_status" 0
}

# ---- what is written -------------------------------------------------------------------------

# bats test_tags=fast
@test "a file posted by ticket is in the region, and only there" {
  make_file source 100001
  start_region 128K
  post source
  assert_run 0
  assert_equal "${lines[0]}" 'wr_id=0 bytes=100001 status=success'
  assert_last_line 'delivery confirmed'
  assert_region_holds source
}

# bats test_tags=fast
@test "segments go where =REMOTE says, the others behind the one before" {
  printf 0123456789abcdef > source
  start_region 4096
  post source@10+3=1000 source@+4 source@-2=4094 source@4+1=0
  assert_run 0
  truncate -s 4096 wanted
  printf abc0123 | dd of=wanted bs=1 seek=1000 conv=notrunc status=none
  printf ef | dd of=wanted bs=1 seek=4094 conv=notrunc status=none
  printf 4 | dd of=wanted bs=1 conv=notrunc status=none
  wait_for exists dump
  assert_same dump wanted
}

@test "1,000 segments of a program, of odd sizes and shuffled, put it together" {
  local size=$((6 << 20))
  cat /usr/bin/[a-z]* 2> /dev/null | head -c $size > source || true
  assert_equal "$(stat -c %s source)" $size
  awk -v size=$size 'BEGIN {
    for (n = 0; n < 1000; n++) {
      length_ = n < 999 ? 1 + (n * 7919) % 12011 : size - at
      printf "source@%d+%d=%d\n", at, length_, at
      at += length_
    }
  }' | shuf --random-source=source > list
  start_region 6M
  post -v --segments-from list
  assert_run 0
  assert_equal "$(grep -c '^wr_id=[0-9]* bytes=[0-9]* status=success$' <<< "$output")" "$(grep -c ^wr_id <<< "$output")"
  wait_for exists dump
  assert_same dump source
}

# bats test_tags=fast
@test "overlapping segments apply in order" {
  make_file first 3000
  make_file second 1000
  make_file third 700
  start_region 4096
  post first second@=500 third@=1200 second@+10=1000 first@+1=1005
  assert_run 0
  dd if=second of=first bs=1 seek=500 conv=notrunc status=none
  dd if=third of=first bs=1 seek=1200 conv=notrunc status=none
  dd if=second of=first bs=1 seek=1000 count=10 conv=notrunc status=none
  dd if=first of=first bs=1 seek=1005 count=1 conv=notrunc status=none
  assert_region_holds first
}

# bats test_tags=device
@test "10,000 segments of 100 bytes need no more work requests than their gather entries do" {
  local max_sge requests
  seq -f '%099.0f' 10000 > source
  seq 999900 -100 0 | sed 's/.*/source@&+100/' > list
  max_sge=$(device_limit max_sge)
  [ "$max_sge" -gt 0 ]
  start_region 1000000
  post -v --segments-from list
  assert_run 0
  requests=$(sed -n 's/.*work requests \([0-9]*\).*/\1/p' <<< "$stderr")
  assert_equal "$(grep -c ^wr_id= <<< "$output")" "$requests"
  [ "$requests" -le $(((10000 + max_sge - 1) / max_sge)) ] || fail "$requests work requests, max_sge $max_sge"
  wait_for exists dump
  tac source | cmp - dump
}

@test "a file larger than the buffers becomes several work requests, in order" {
  make_file source 10000001
  start_region 10M
  post source
  assert_run 0
  awk -F '[= ]' '
    /^wr_id=/ { if ($2 != n++ || $6 != "success") exit 1; bytes += $4 }
    END { exit !(bytes == 10000001 && n > 4) }' <<< "$output" || fail "not in order, or not all: $output"
  assert_region_holds source
}

# bats test_tags=fast
@test "standard input is posted until it ends" {
  make_file source 300000
  start_region 1M
  rm -f dump
  run rdmaput post - "$ticket" < <(cat source)
  assert_run 0 'delivery confirmed'
  assert_region_holds source
}

# bats test_tags=fast,device
@test "a region that listens on an IPv6 address takes posts" {
  need_ipv6
  make_file source 5000
  server_bind=$addr6 start_region 8192
  post source
  assert_run 0
  assert_last_line 'delivery confirmed'
  assert_region_holds source
}

# ---- work requests and flags -----------------------------------------------------------------

# bats test_tags=fast
@test "--context is the wr_id of the first work request, and counts up, also past the largest" {
  make_file source 300
  start_region 4096
  segments=('source@+100=0' 'source@+100=1000' 'source@+100=2000')
  post --context 41 "${segments[@]}"
  assert_run 0 'wr_id=41 bytes=100 status=success' 'wr_id=42 bytes=100' 'wr_id=43 bytes=100'
  post --context 0xfffffffffffffffe "${segments[@]}"
  assert_run 0 'wr_id=18446744073709551614 bytes=100 status=success' \
    'wr_id=18446744073709551615 bytes=100 status=success' 'wr_id=0 bytes=100 status=success'
  post --context 18446744073709551616 "${segments[@]}"
  assert_run 64
}

# bats test_tags=fast
@test "--flags posts the same bytes; only signaled prints each completion" {
  local flags
  make_file source 40
  start_region 4096
  for flags in signaled fence,signaled solicited,signaled inline,signaled; do
    post --flags $flags source@+20=0 source@20+10=100 source@30+10=50
    assert_run 0
    assert_equal "$output" $'wr_id=0 bytes=20 status=success\nwr_id=1 bytes=10 status=success
wr_id=2 bytes=10 status=success\ndelivery confirmed'
  done
  for flags in none fence inline fence,solicited,inline; do
    post --flags $flags source@+20=0 source@20+10=100 source@30+10=50
    assert_run 0
    assert_equal "$output" $'wr_id=2 bytes=10 status=success\ndelivery confirmed'
  done
  dd if=source of=wanted bs=1 count=20 status=none
  dd if=source of=wanted bs=1 skip=20 seek=100 count=10 status=none
  dd if=source of=wanted bs=1 skip=30 seek=50 count=10 conv=notrunc status=none
  assert_region_holds wanted
}

# bats test_tags=fast
@test "inline data of more than a device takes at once becomes several work requests" {
  make_file source 3000
  start_region 4096
  post -v --flags inline,signaled source
  assert_run 0
  [ "$(grep -c '^wr_id=.* status=success' <<< "$output")" -gt 1 ]
  assert_region_holds source
}

@test "unsignalled work requests of 8 MiB arrive" {
  make_file source $((8 << 20))
  start_region 8M
  post --flags none source
  assert_run 0
  assert_last_line 'delivery confirmed'
  wait_for exists dump
  assert_same dump source
}

# ---- the session -----------------------------------------------------------------------------

# bats test_tags=fast
@test "a ticket serves later posts too, and what was there stays" {
  make_file first 1000
  make_file second 1000
  start_region 4096
  post first
  assert_run 0
  wait_for exists dump
  post second@=3000
  assert_run 0
  wait_for exists dump
  truncate -s 4096 first
  dd if=second of=first bs=1000 seek=3 conv=notrunc status=none
  assert_same dump first
}

# bats test_tags=fast
@test "with --once the region's server ends after a post" {
  make_file source 1000
  start_region 4096 --once
  post source
  assert_run 0
  wait_server
  assert_equal "$server_status" 0
  assert_region_holds source
}

@test "one post at a time: another one is told that the server is busy" {
  make_file source 1000
  start_region 4096
  mkfifo pipe
  input=pipe start_process first "$RDMAPUT" post --trace - "$ticket"
  exec {feed}> pipe
  head -c 500 source >&"$feed"
  wait_for_text "$process_err" 'wr_id 0: success'
  within 10000 post source
  assert_failed 75 busy
  is_absent dump
  tail -c +501 source >&"$feed"
  exec {feed}>&-
  wait_process "$process_pid"
  assert_equal "$process_status" 0
  assert_region_holds source
}

# bats test_tags=fast
@test "a server that exposes no memory refuses a post" {
  make_file source 100
  start_server --discard
  run --separate-stderr rdmaput post --remote-addr 0x1000 --rkey 1 source "$dest"
  assert_failed 69 "$dest" 'no memory is exposed' 'hint: ' '--region'
}

# bats test_tags=fast
@test "without a server a post fails, and says what to start" {
  make_file source 100
  start_region 4096
  stop_server
  post source
  assert_failed 69 "$dest" 'nobody listens on that port' "hint: start 'rdmaput serve'"
}

# ---- foreign listeners -----------------------------------------------------------------------

# bats test_tags=fast
@test "a foreign listener that grants reads gets the bytes, and delivery is confirmed" {
  make_file source 70000
  start_foreign -l 70000 -r 1 -o dump
  run --separate-stderr rdmaput post --remote-addr "$remote_addr" --rkey "$rkey" source "$dest"
  assert_run 0 'status=success'
  assert_last_line 'delivery confirmed'
  wait_process "$foreign_pid"
  assert_equal "$process_status" 0
  assert_same dump source
}

# bats test_tags=fast
@test "a foreign listener that grants no reads gets the bytes, and delivery is not confirmed" {
  make_file source 70000
  start_foreign -l 70000 -r 0 -o dump
  run --separate-stderr rdmaput post --remote-addr "$remote_addr" --rkey "$rkey" source "$dest"
  assert_run 0 'status=success'
  assert_last_line 'delivery not confirmed'
  wait_process "$foreign_pid"
  assert_equal "$process_status" 0
  assert_same dump source
}

# ---- access that is refused ------------------------------------------------------------------

# REMOTE_ADDR RKEY FILE - a post to $dest that the far adapter refuses
assert_refused() {
  run --separate-stderr rdmaput post --timeout 10s --remote-addr "$1" --rkey "$2" "$3" "$dest"
  assert_failed 69 "$dest" access 'hint: check the remote address and rkey'
  refute_output --partial confirmed
}

@test "a wrong rkey is refused by a region, which stays as it was and serves on" {
  make_file small 64
  make_file large $((2 << 20))
  start_region 2M
  assert_refused "$remote_addr" $((rkey ^ 0x5500)) small
  # What refuses and what dies look alike there: the client asks whether somebody listens, and no more.
  if [ "$fabric" = siw ]; then has_text "$server_err" 'refused: it only asked whether somebody listens'; fi
  assert_refused "$remote_addr" $((rkey ^ 0x5500)) large
  post small@=100
  assert_run 0
  assert_region_holds small 100
}

@test "an address outside the region is refused, on either side of it" {
  make_file small 64
  make_file large $((2 << 20))
  start_region 2M
  assert_refused $((remote_addr - 64)) "$rkey" small
  assert_refused $((remote_addr + (2 << 20))) "$rkey" small
  assert_refused $((remote_addr + (1 << 40))) "$rkey" small
  assert_refused $((remote_addr - (4 << 20))) "$rkey" large
  post small@=100
  assert_run 0
  assert_region_holds small 100
}

@test "a foreign listener's adapter refuses a wrong rkey, and nothing is written" {
  make_file small 64
  make_file large 200000
  head -c 200000 /dev/zero > zeros
  start_foreign -l 200000 -n 100 -o dump
  assert_refused "$remote_addr" $((rkey ^ 0x5500)) small
  assert_refused "$remote_addr" $((rkey ^ 0x5500)) large
  stop_foreign
  assert_same dump zeros
}

@test "a foreign listener's adapter refuses what is not wholly inside, and nothing outside is written" {
  make_file small 64
  make_file large 200000
  start_foreign -l 200001 -n 100 -o dump
  assert_refused $((remote_addr - 1)) "$rkey" small
  assert_refused $((remote_addr + 200001)) "$rkey" small
  assert_refused $((remote_addr + 200001 - 63)) "$rkey" small
  assert_refused $((remote_addr + 100000)) "$rkey" large
  stop_foreign # and fails when a byte outside was written
}

@test "without reads to confirm by, a refused access still fails" {
  make_file small 64
  start_foreign -l 4096 -r 0 -n 100
  assert_refused "$remote_addr" $((rkey ^ 0x5500)) small
  stop_foreign
}

# bats test_tags=fast
@test "segments past the end of the ticket's region are refused before anything is sent" {
  make_file source 4097
  start_region 4096
  post source
  assert_failed 69 'outside the region of 4096 bytes' 'hint: '
  refute_output --partial wr_id
  post source@+1=0 source@+97=4000
  assert_failed 69 'outside the region'
  refute_output --partial wr_id
  is_absent dump
  post source@+96=4000
  assert_run 0
}

# bats test_tags=fast
@test "standard input of more than the region takes fails, and nothing behind it is written" {
  make_file source 20000
  start_region 10000
  run --separate-stderr rdmaput post - "$ticket" < source
  assert_failed 69 'outside the region of 10000 bytes'
  refute_output --partial confirmed
}

# ---- usage -----------------------------------------------------------------------------------

# bats test_tags=fast
@test "an unknown flag is a usage error" {
  make_file source 10
  run rdmaput post --flags signaled,loud source rdmaput1,10.0.0.1,7475,0x1000,0x1,4096
  assert_run 64 loud
}

# bats test_tags=fast
@test "a ticket cut short, or of none, is a usage error" {
  local whole=rdmaput1,10.0.0.1,7475,0x1000,0x1,4096
  make_file source 10
  for ticket in "${whole%,*}" "${whole%,*,*}" rdmaput1,10.0.0.1 'rdmaput1,' "${whole/7475/74750}" "${whole/0x1000/here}"; do
    post source
    assert_failed 64 ticket
  done
  run rdmaput post source 10.0.0.1:7475
  assert_run 64 --rkey
  run rdmaput post --rkey 1 --remote-addr 1 source "$whole"
  assert_run 64
}

# sparse.bats - holes of files are not sent, and are holes at the far end; elsewhere zeros
# bats file_tags=siw,storage
# shellcheck disable=SC2034,SC2154 # variables of lib/common.bash
load lib/common

MIB=$((1 << 20)) GIB=$((1 << 30))

setup() {
  common_setup
  need_device
  [ "$(: > probe && truncate -s 1M probe && hole_map probe)" = "hole 0 $MIB" ] ||
    lack "no holes in files of $BATS_TEST_TMPDIR"
  make_file island $MIB
}

# ARG... - writes to $dest, which succeeds and says nothing
deliver() {
  run rdmaput write -t "$dest" "$@"
  assert_run 0
  assert_equal "$output" ''
}

# FILE OFFSET - puts standard input there
patch() { dd of="$1" bs=64K seek="$2" oflag=seek_bytes conv=notrunc status=none; }

# FILE - a line for each hole and each stretch of data: its kind, start and end
hole_map() {
  perl -e '
    open my $file, "<", $ARGV[0] or die "$ARGV[0]: $!\n";
    my ($at, $size) = (0, -s $file);
    while ($at < $size) {
      my $data = sysseek $file, $at, 3; # SEEK_DATA
      $data = defined $data ? $data + 0 : $size;
      print "hole $at $data\n" if $data > $at;
      last if $data == $size;
      $at = sysseek $file, $data, 4; # SEEK_HOLE
      print "data $data $at\n";
    }' "$1"
}

assert_same_holes() {
  assert_equal "$(hole_map "$2")" "$(hole_map "$1")"
  assert_equal "$(stat -c '%s bytes, %b blocks' "$2")" "$(stat -c '%s bytes, %b blocks' "$1")"
}

# A FILE OFFSET... - a MiB at each is the island
assert_islands() {
  local at
  for at in "${@:2}"; do
    cmp -n $MIB -i "0:$at" island "$1"
  done
}

# bats test_tags=fast
@test "100 GiB with three islands take seconds, and have the same holes at the far end" {
  local at places=($((7 * GIB)) $((50 * GIB + 3 * MIB)) $((98 * GIB + 4096)))
  truncate -s 100G source
  for at in "${places[@]}"; do patch source "$at" < island; done
  start_server --once -v out
  within 20000 run rdmaput write -v source "$dest"
  assert_run 0 'delivered 3.00 MiB' 'chunks 12'
  wait_server
  assert_equal "$server_status" 0
  assert_same_holes source out
  assert_islands out "${places[@]}"
}

@test "a file that is one hole has no block at the far end, and keeps its size" {
  truncate -s 10G source
  start_server out
  deliver source
  assert_equal "$(stat -c '%s %b' out)" "$((10 * GIB)) 0"
  # It replaces one that has data.
  deliver island
  assert_same island out
  deliver source
  assert_equal "$(stat -c '%s %b' out)" "$((10 * GIB)) 0"
  stop_server
}

@test "holes at the start and at the end, and data that ends within a page" {
  truncate -s 5000001 source
  head -c 300001 island | patch source 1000000
  start_server out
  deliver source
  assert_same_holes source out
  assert_same source out
  # Data at both ends.
  patch source 0 < <(head -c 10 island)
  patch source 4999999 < <(head -c 2 island)
  deliver source
  assert_same_holes source out
  assert_same source out
  stop_server
}

@test "many holes, small ones too: the content is the same" {
  local at
  truncate -s 4M source
  for at in 0 8192 73728 200704 300000 1048576 1249280 1380352 2097152 4190208; do
    head -c 3000 island | patch source $at
  done
  start_server out
  deliver source
  assert_same source out
  assert [ "$(stat -c %b out)" -lt $((4 << 20 >> 9)) ]
  stop_server
}

# bats test_tags=fast
@test "--sparse=never sends zeros, and they take their blocks" {
  truncate -s 2M source
  patch source 100000 < <(head -c 5000 island)
  start_server out
  deliver --sparse=never source
  assert_same source out
  assert_equal "$(hole_map out)" "data 0 $((2 * MIB))"
  deliver --sparse=auto source
  assert_same_holes source out
  assert_same source out
  stop_server
}

@test "segments cut through holes, and are put elsewhere" {
  truncate -s 4M source
  patch source $MIB < island
  start_server out
  # Data with the end of a hole before it and the start of one behind it; holes alone; the same twice.
  deliver source@900000+1500000=6000000 source@3M+512K=100 island@+100=0 source@900000+300000=2000000
  truncate -s 7500000 wanted
  head -c 100 island | patch wanted 0
  tail -c +900001 source | head -c 300000 | patch wanted 2000000
  tail -c +900001 source | head -c 1500000 | patch wanted 6000000
  assert_same wanted out
  assert [ "$(stat -c %b out)" -le $((1400000 >> 9)) ]
  stop_server
}

@test "holes are zeros in memory, over what was there" {
  make_file full $((3 * MIB))
  truncate -s $((3 * MIB)) source
  patch source $MIB < island
  start_server --region 3M --dump ./dump
  deliver full
  wait_for exists dump
  assert_same full dump
  deliver source
  assert_same source dump
  # And those of a part, between what stays.
  deliver full
  deliver source@500000+1M=1M island@+1=3145727
  { head -c $MIB /dev/zero; tail -c +500001 source | head -c $MIB; head -c 1048575 /dev/zero; head -c 1 island; } > wanted
  assert_same wanted dump
  stop_server
}

@test "holes are zeros on standard output" {
  truncate -s 5000001 source
  patch source 1000000 < island
  mkfifo stream
  server_wrapper=(bash -c 'exec "$@" > stream' bash)
  launch_server stream-server --bind "$addr" -
  input=stream start_process compare cmp - source
  await_server
  deliver source
  wait_server
  assert_equal "$server_status" 0
  wait_process "$process_pid"
  assert_equal "$process_status" 0
}

@test "holes are zeros in place, also those of segments" {
  make_file disk $((4 * MIB))
  cp disk wanted
  truncate -s 3M source
  patch source $MIB < island
  tail -c +600001 source | head -c 700000 | patch wanted 1000003
  head -c 200000 /dev/zero | patch wanted 3000000
  start_server --in-place disk
  deliver source@600000+700000=1000003 source@+200000=3000000
  assert_same wanted disk
  stop_server
}

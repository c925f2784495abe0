# in-place.bats - `serve --in-place`: files and block devices, written where clients say
# bats file_tags=siw,storage
# shellcheck disable=SC2034,SC2154 # variables of lib/common.bash
load lib/common

setup() {
  common_setup
  need_device
  loop=''
}

teardown() {
  # Its file may lie on what is mounted.
  if [ -n "$loop" ]; then losetup -d "$loop"; fi
  common_teardown
}

# ARG... - writes to $dest, which succeeds and says nothing
deliver() {
  run rdmaput write -t "$dest" "$@"
  assert_run 0
  assert_equal "$output" ''
}

# FILE OFFSET - puts standard input there, in a file that is to be compared with
patch() { dd of="$1" bs=64K seek="$2" oflag=seek_bytes conv=notrunc status=none; }

# SIZE - a block device of so many bytes of zeros: loop, and backing, its file
make_loop() {
  need_root 'make a loop device'
  [ -e /dev/loop-control ] || lack "no loop devices"
  backing=${2:-$PWD/backing}
  truncate -s "$1" "$backing"
  loop=$(losetup -f --show "$backing")
}

# ---- files -------------------------------------------------------------------------------------

# bats test_tags=fast
@test "segments go to their offsets, and nothing else is touched" {
  local before
  make_file disk 1000000
  make_file a 300000
  cp disk wanted
  head -c 1001 a | patch wanted 5000
  tail -c 270001 a | patch wanted 600003
  chmod 640 disk
  touch -d '2001-02-03' a
  before=$(stat -c '%i %a %s' disk)
  start_server --in-place disk
  deliver --preserve a@-270001=600003 a@+1001=5000
  assert_same wanted disk
  assert_equal "$(stat -c '%i %a %s' disk)" "$before"
  # One object after another.
  head -c 70 a | patch wanted 0
  deliver a@+70
  assert_same wanted disk
  stop_server
  assert_same wanted disk
}

@test "a file grows to where an object ends, and is never truncated" {
  make_file disk 10000
  make_file a 5000
  { cat a; tail -c 5000 disk; } > wanted
  start_server --in-place disk
  deliver a
  assert_same wanted disk
  { cat wanted; head -c 300000 /dev/zero; cat a; } > grown
  deliver a@=310000
  assert_same grown disk
  # A hole at the end of an object, too.
  truncate -s 100000 hole
  { cat grown; head -c 85000 /dev/zero; } > wanted
  deliver hole@=300000
  patch wanted 300000 < hole
  assert_same wanted disk
  deliver a@+0
  assert_same wanted disk
  stop_server
}

@test "a stream of unknown size is written in place" {
  make_file disk 900000
  make_file a 600000
  cp disk wanted
  patch wanted 4097 < a
  start_server --in-place disk
  deliver -- -@=4097 < <(cat a)
  assert_same wanted disk
  stop_server
}

# bats test_tags=fast
@test "holes of a source come as zeros, over what was there" {
  make_file disk 3000000
  make_file data 70000
  truncate -s 2500000 source
  patch source 1048576 < data
  cp disk wanted
  patch wanted 0 < source
  start_server --in-place disk
  deliver source
  assert_same wanted disk
  stop_server
}

@test "one session at a time: a second client is told that the server is busy" {
  make_file disk 1000
  make_file a 10
  start_server --in-place disk
  start_slow_client
  run rdmaput write a "$dest"
  assert_run 75 'busy with another session' 'hint: try again'
  end_slow_client
  assert_equal "$client_status" 0
  assert_equal "$(head -n 1 disk)" begin
  deliver a
  cmp -n 10 a disk
  stop_server
}

@test "a NAME is refused, and an object leaves no other file" {
  mkdir dir
  make_file dir/disk 1000
  make_file a 10
  start_server --in-place dir/disk
  run rdmaput write a "$dest/name"
  assert_run 69 'takes no object name'
  deliver a
  assert_dir_holds dir disk
  stop_server
}

# bats test_tags=fast
@test "what is missing, or cannot be written at an offset, is 73 with a hint" {
  mkdir dir
  mkfifo fifo
  RUN_LIMIT=20 run rdmaput serve --in-place missing
  assert_run 73 'missing: cannot open for writing' "hint: what is written in place must exist: 'truncate"
  RUN_LIMIT=20 run rdmaput serve --in-place dir
  assert_run 73 'dir: is a directory' 'hint: '
  RUN_LIMIT=20 run rdmaput serve --in-place fifo
  assert_run 73 'fifo: is a FIFO' 'hint: '
  RUN_LIMIT=20 run rdmaput serve --in-place /dev/null
  assert_run 73 '/dev/null: is a character device' 'hint: '
  assert_equal "$(stat -c %F fifo)" fifo
  assert [ ! -e missing ]
}

@test "a file that went away in the meantime is 73 for the next client, and the server goes on" {
  make_file disk 1000
  make_file a 10
  start_server --in-place disk
  mv disk moved
  run rdmaput write a "$dest"
  assert_run 73 'disk: cannot open for writing'
  mv moved disk
  deliver a
  cmp -n 10 a disk
  stop_server
}

# ---- failures ----------------------------------------------------------------------------------

@test "a full file system is 74 at both ends, and both say that what was written stays" {
  mount_at small -t tmpfs -o size=1M
  truncate -s 4M small/disk
  make_file a 3000000
  start_server --once --in-place small/disk
  run rdmaput write a "$dest"
  assert_run 74 'small/disk: cannot write: No space left on device' 'what was written before' 'stays'
  wait_server
  assert_equal "$server_status" 74
  assert_regex "$(< "$server_err")" 'small/disk: cannot write: No space .*what was written before .* stays'
  cmp -n 500000 a small/disk
}

@test "a client that is killed: 75, and the server says how much was written" {
  make_file disk 1000
  cp disk wanted
  echo begin | patch wanted 0
  start_server --once --in-place disk
  start_slow_client
  wait_for has_changed
  kill -KILL "$client_pid"
  wait_server
  assert_equal "$server_status" 75
  assert_regex "$(< "$server_err")" 'what was written before \(6 bytes\) stays'
  assert_same wanted disk
}
has_changed() { [ "$(head -c 6 disk)" = begin ]; }

# ---- stable storage ----------------------------------------------------------------------------

# PATTERN - the calls in `calls` match it; for each "w" is a write to the file, "s" a sync
assert_calls() {
  assert_regex "$(sed -n 's/.*pwrite64(.*/w/p; s/.*f\(data\)\{0,1\}sync(.*/s/p' calls | tr -d '\n')" "$1"
}

@test "--sync of the server or of the client waits for stable storage" {
  need_command strace
  make_file disk 1000
  make_file a 300000
  # shellcheck disable=SC2054 # strace's commas
  server_wrapper=(strace -D -f -o calls -e trace=pwrite64,fsync,fdatasync)
  start_server --once --sync --in-place disk
  deliver a
  wait_server
  assert_calls '^w+s$'
  start_server --once --in-place disk
  deliver --sync a
  wait_server
  assert_calls '^w+s$'
  start_server --once --in-place disk
  deliver a
  wait_server
  assert_calls '^w+$'
}

# ---- block devices -----------------------------------------------------------------------------

# bats test_tags=fast
@test "a block device is written at offsets, up to its last byte" {
  make_file a 300000
  make_loop 4M
  truncate -s 4M wanted
  head -c 1001 a | patch wanted 5000
  patch wanted $(((4 << 20) - 300000)) < a
  start_server --sync --in-place "$loop"
  deliver a@=$(((4 << 20) - 300000)) a@+1001=5000
  assert_same wanted "$loop"
  assert_same wanted "$backing"
  stop_server
}

@test "past the end of a block device: 73 before any data, and 74 when only the data tell" {
  local end=$((1 << 20))
  make_file a 300000
  make_loop 1M
  truncate -s 1M zeros
  start_server --in-place "$loop"
  run rdmaput write -t "$dest" a@=$((end - 299999))
  assert_run 73 "the object needs $((end + 1)) bytes, and the device has $end"
  assert_same zeros "$loop"
  run rdmaput write -t "$dest" -- -@=$((end - 299999)) < <(cat a)
  assert_run 74 "$loop: the object needs" "and the device has $end" 'what was written before' 'stays'
  stop_server
  assert_regex "$(< "$server_err")" 'what was written before .* stays'
}

@test "a block device in use is 73" {
  make_loop 1M
  mkswap "$loop" > /dev/null 2>&1
  swapon "$loop"
  RUN_LIMIT=20 run rdmaput serve --in-place "$loop"
  swapoff "$loop"
  assert_run 73 "$loop: cannot open for writing: Device or resource busy" 'hint: '
}

@test "a device that fails to write is 74 with --sync, at both ends" {
  make_file a 3000000
  mount_at small -t tmpfs -o size=1M
  # It has more bytes than its file system has room for.
  make_loop 4M "$PWD/small/backing"
  start_server --once --sync --in-place "$loop"
  run rdmaput write a "$dest"
  assert_run 74 "$loop: cannot sync: Input/output error" 'what was written before' 'stays'
  wait_server
  assert_equal "$server_status" 74
  assert_regex "$(< "$server_err")" 'cannot sync: Input/output error; what was written before .* stays'
}

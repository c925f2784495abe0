# map.bats - RDMA writes that land in the file itself
# shellcheck disable=SC2154 # variables of lib/common.bash
# bats file_tags=device
load lib/common

setup() {
  common_setup
  need_device
  mkdir dir
  [ "$(stat -f -c %T .)" = tmpfs ] || lack "no tmpfs here"
}

# ARG... - writes to $dest; sets places, how many ranges of the file were granted
deliver() {
  local got=0
  rdmaput write --trace "$@" > said 2>&1 || got=$?
  [ $got -eq 0 ] || fail "status $got of: rdmaput write $* ($(grep -v 'completion\|sending\|received' said))"
  places=$(grep -c 'received PLACE' said || true)
}

# bats test_tags=fast
@test "on tmpfs the pages of the file are written, range by range, and the content is equal" {
  make_file a 2500001
  make_file small 1000
  start_server -v dir
  deliver a "$dest/x"
  assert_equal "$places" 10
  assert_same a dir/x
  deliver --map=never a "$dest/y"
  assert_equal "$places" 0
  assert_same a dir/y
  deliver small "$dest/z"
  assert_equal "$places" 0
  stop_server
  assert_dir_holds dir x y z
}

@test "segments that adjoin are mapped; gaps, holes, pipes and --resume are not" {
  make_file a 2000000
  cp a sparse
  truncate -s 3000000 sparse
  start_server -v dir
  deliver a@1000 a@+999 a@500+1500000 "$dest/x"
  [ "$places" -gt 0 ] || fail 'not mapped'
  { tail -c +1001 a; head -c 999 a; tail -c +501 a | head -c 1500000; } > wanted
  assert_same wanted dir/x
  deliver a@=4096 "$dest/gap"
  assert_equal "$places" 0
  deliver sparse "$dest/sparse"
  assert_equal "$places" 0
  assert_same sparse dir/sparse
  deliver --resume a "$dest/resumed"
  assert_equal "$places" 0
  deliver - "$dest/pipe" < a
  assert_equal "$places" 0
  stop_server
}

@test "several mapped objects in one session, large and small ones in turn" {
  make_file a 1500000
  make_file b 10
  make_file c 1048576
  : > d
  start_server dir
  deliver a b c d "$dest/many/"
  [ "$places" -gt 6 ] || fail "only $places ranges"
  for file in a b c d; do assert_same $file dir/many/$file; done
  stop_server
}

@test "where pages cannot be written, and with --map=never, it goes the other way, and -v says why" {
  make_file a 1500000
  start_server -v --map=never dir
  deliver a "$dest/x"
  assert_equal "$places" 0
  assert_same a dir/x
  stop_server
  [[ $(< "$server_err") == *'not mapped: --map=never'* ]] || fail "$(< "$server_err")"
  start_server -v --discard
  deliver a "$dest"
  assert_equal "$places" 0
  stop_server
  [[ $(< "$server_err") == *'not mapped: '* ]] || fail "$(< "$server_err")"
  mount_at other -t ramfs
  start_server -v other
  deliver a "$dest/x"
  assert_equal "$places" 0
  assert_same a other/x
  stop_server
  [[ $(< "$server_err") == *'not mapped: its file system'* ]] || fail "$(< "$server_err")"
}

@test "a killed client leaves the old file and nothing else" {
  make_file a 60000000
  echo old > dir/x
  start_server -v dir
  start_process client "$RDMAPUT" write --trace a "$dest/x"
  wait_for_text "$process_err" 'received PLACE'
  kill -KILL "$process_pid"
  wait_for_text "$server_err" 'stored'
  assert_equal "$(< dir/x)" old
  assert_dir_holds dir x
  deliver a "$dest/x"
  assert_same a dir/x
  stop_server
}

# bats test_tags=fast
@test "a mapped file that is cut short meanwhile fails its session, and the server goes on" {
  make_file a 1000000
  head -c 64M /dev/zero > big
  start_server dir
  start_process client "$RDMAPUT" write --trace big "$dest/x"
  wait_for_text "$process_err" 'received PLACE'
  # It would be done too soon.
  kill -STOP "$process_pid"
  wait_for cut_short
  kill -CONT "$process_pid"
  wait_process "$process_pid"
  [ "$process_status" -ne 0 ] || fail 'it was delivered'
  deliver a "$dest/y"
  assert_same a dir/y
  stop_server
  assert_dir_holds dir y
}
# The file has no name yet.
cut_short() {
  local link
  for link in /proc/"$server_pid"/fd/*; do
    [[ $(readlink "$link") == */dir/*'(deleted)' ]] && truncate -s 4096 "$link" && return
  done
  return 1
}

# What `rdmaput serve DIR` makes of the names that clients give: whole files or nothing, below DIR and
# nowhere else.
# bats file_tags=rxe,storage
# shellcheck disable=SC2154,SC2034,SC2030,SC2031 # lib/common.bash and bats set and use what is here

load lib/common

setup() {
  common_setup
  mkdir out
  echo data > a
}

# ARG... - a server of this test's own directories, where there is a device
serve() {
  need_device
  start_server "$@"
}

# NAME ARG... - writes to $dest/NAME, which succeeds
deliver() {
  local got=0
  rdmaput write -t "$dest/$1" "${@:2}" > said 2>&1 || got=$?
  [ $got -eq 0 ] || fail "status $got of: rdmaput write -t $dest/$1 ${*:2} ($(< said))"
}

# STATUS TEXT NAME ARG... - writing to $dest/NAME fails with STATUS, and a message holds TEXT
fails_to_deliver() {
  run --separate-stderr rdmaput write -t "$dest/$3" "${@:4}"
  assert_failure_of "$1" "$2"
}

# STATUS TEXT - what `run --separate-stderr` ran ended with STATUS, and said TEXT
assert_failure_of() {
  assert_equal "$status $stderr" "$1 $stderr"
  [[ $stderr == *"$2"* ]] || fail "'$2' is not in: $stderr"
}

assert_hint() { [[ $stderr == *"rdmaput: hint: "*"$1"* ]] || fail "no hint '$1' in: $stderr"; }
assert_log() { wait_for_text "$server_err" "$1"; }

# DIR... - all that is there, with what a change of it would change
snapshot() { find "$@" -printf '%p %y %m %s %i %T@ %l\n' | sort; }

# ---- names --------------------------------------------------------------------------------------

# bats test_tags=fast
@test "NAME is a path below DIR, and directories that are missing are made" {
  mkdir out/there
  serve out
  deliver f a
  deliver there/f a
  deliver new/er/f a
  stop_server
  serve out/
  deliver 'new/a b *' a
  stop_server
  assert_same a out/f
  assert_same a out/there/f
  assert_same a out/new/er/f
  assert_same a 'out/new/a b *'
  assert_dir_holds out f new there
  assert_dir_holds out/new 'a b *' er
}

@test "a session that fails makes no directory, nor is one there before the file is" {
  serve out
  dest=$dest/new/er/f start_slow_client a
  assert_dir_holds out
  kill -KILL "$client_pid"
  end_slow_client
  assert_log "rdmaput: $addr:"
  dest=$dest/new/f start_slow_client a
  echo more >> a
  end_slow_client
  assert_equal "$client_status" 65
  assert_dir_holds out
  stop_server
}

@test "a DIR/ that is no directory is 73, and so is one that may not be written" {
  local dir
  need_device
  for dir in nosuch/ nosuch/x/ a/; do
    run --separate-stderr rdmaput serve --bind "$addr" --port 0 "$dir"
    assert_failure_of 73 "$dir: "
    assert_hint 'must exist and be writable'
  done
  assert_not_exist nosuch
  assert_equal "$(< a)" data
}

# bats test_tags=fast
@test "DIR without a NAME is 69, and the hint names the form" {
  serve out
  run --separate-stderr rdmaput write a "$dest"
  assert_failure_of 69 'no object was named'
  assert_hint 'HOST[:PORT]/NAME'
  assert_dir_holds out
}

long=$(printf '%0256d' 0)
temporary=.f.rdmaput-0123456789abcdef
partial=.f.rdmaput-part-0123456789abcdef0123456789abcdef

# bats test_tags=fast
@test "a name that no object can have is 64, before anybody is asked" {
  local name
  for name in /etc/x .. . ../f f/../../f f/. f//g $'f\ng' $'f\x7f' "$long" "d/$long" "$temporary" "d/$partial" \
    "${long:0:250}/${long:0:250}/${long:0:250}/${long:0:250}/${long:0:250}" ../d/ d//; do
    run --separate-stderr rdmaput write a "192.0.2.1:1/$name"
    assert_equal "$status $name" "64 $name"
    [[ $stderr == 'rdmaput: '*name*:* || $stderr == *'longer than 1024 bytes' ]] || fail "$name: $stderr"
  done
  echo hidden > "$temporary"
  run --separate-stderr rdmaput write a "$temporary" 192.0.2.1:1/
  assert_failure_of 64 'one of rdmaput'\''s own hidden files'
}

# NAME TEXT - a client that checks nothing is refused, for that reason, at both ends
refuses() {
  run --separate-stderr "$RDMAPUT_BUILD/tests/hostile-peer" deliver "$dest" "$1" a
  assert_equal "$status $1 $stderr" "${3:-73} $1 $stderr"
  [[ $stderr == 'hostile-peer: '*"$2"* ]] || fail "'$2' is not in what the client said of '$1': $stderr"
  server_said=''
  wait_for server_says "$2"
}
# TEXT - in what the server, whose messages are read at descriptor 8, has said since
server_says() {
  local more
  IFS= read -rd '' -u 8 more || true
  server_said+=$more
  [[ $server_said == *"$1"* ]]
}

@test "a server refuses every name that leads elsewhere, also from a client that checks nothing" {
  local outside inside
  mkdir elsewhere out/dir
  echo old > elsewhere/target
  echo old > out/file
  mkfifo out/fifo
  ln -s ../elsewhere out/link
  ln -s dir out/inner
  ln -s ../elsewhere/target out/end
  ln -s ../elsewhere/none out/dangling
  echo kept > "out/$partial"
  serve out
  exec 8< "$server_err"
  outside=$(snapshot elsewhere a) inside=$(snapshot out)
  refuses '' 'no object was named' 69
  refuses /etc/rdmaput-test 'it is absolute'
  refuses "$PWD/elsewhere/f" 'it is absolute'
  refuses ../elsewhere/f "it has a part '..'"
  refuses dir/../../elsewhere/f "it has a part '..'"
  refuses .. "it has a part '..'"
  refuses . "it has a part '.'"
  refuses dir/./f "it has a part '.'"
  refuses dir//f 'it has an empty part'
  refuses dir/ 'it has an empty part'
  refuses $'f\ng' 'it has a control character'
  refuses $'f\eg' 'it has a control character'
  refuses "$long" 'more than 255 bytes'
  refuses "dir/$long/f" 'more than 255 bytes'
  refuses "$temporary" 'own hidden files'
  refuses "dir/$temporary" 'own hidden files'
  refuses "$partial" 'own hidden files'
  refuses "$temporary/f" 'own hidden files'
  refuses link/f 'a file or a symbolic link'
  refuses link/new/f 'a file or a symbolic link'
  refuses inner/f 'a file or a symbolic link'
  refuses file/f 'a file or a symbolic link'
  refuses end 'is a symbolic link'
  refuses dangling 'is a symbolic link'
  refuses dir 'is a directory'
  refuses fifo 'is a device, FIFO or socket'
  assert_equal "$(snapshot elsewhere a)" "$outside"
  assert_equal "$(snapshot out)" "$inside"
  assert_not_exist /etc/rdmaput-test
  deliver dir/f a
  "$RDMAPUT_BUILD/tests/hostile-peer" deliver "$dest" dir/g a
  assert_same a out/dir/g
  stop_server
}

@test "a directory that becomes a symbolic link during a transfer leads nowhere else" {
  mkdir elsewhere out/dir
  serve out
  dest=$dest/dir/f start_slow_client
  mv out/dir out/moved
  ln -s ../elsewhere out/dir
  end_slow_client
  assert_equal "$client_status" 73
  dest=$dest/new/f start_slow_client
  ln -s ../elsewhere out/new
  end_slow_client
  assert_equal "$client_status" 73
  assert_dir_holds elsewhere
  assert_dir_holds out/moved
  stop_server
}

# ---- whole or not at all ----------------------------------------------------------------------------

# Directories v0 to v4 with files f0 to f9: file K says its number 5,000 + 500 K times, K from 1 to 50.
make_versions() {
  mkdir v0 v1 v2 v3 v4
  awk 'BEGIN {
    for (k = 1; k <= 50; k++) {
      file = "v" int((k - 1) / 10) "/f" (k - 1) % 10
      for (i = 0; i < 5000 + 500 * k; i++) printf "%05d\n", k > file
      close(file)
    }
  }'
}

# Opens out/f0 to out/f9 in turn until the file "stop" is there, and finds each whole; else it is 1.
# Says how often it has found another content than the time before.
read_versions='BEGIN {
  while ((getline line < "stop") < 0) {
    file = "out/f" n++ % 10
    count = others = 0
    while ((rc = (getline line < file)) > 0) {
      if (!count++) first = line
      if (line != first) others++
    }
    close(file)
    if (rc < 0 || others || count != 5000 + 500 * first) {
      print file ": " rc ", " count " lines of " first ", " others " others"
      exit 1
    }
    if (last[file] != first) changes++
    last[file] = first
  }
  print changes
}'

# NUMBER - one session, which replaces ten files; some kill it, or the server, when it is among them
replace_ten() {
  local killed=''
  start_process "client$1" "$RDMAPUT" write --trace "v$(($1 % 5))/"f? "$dest/"
  case $1 in
    *3 | *7) killed=$process_pid ;;
    *1 | *5) killed=$server_pid ;;
  esac
  if [ -n "$killed" ]; then
    wait_for_text "$process_err" 'received READY'
    nap "0.0$((RANDOM % 10))"
    kill -KILL "$killed" 2> /dev/null || true
  fi
  wait_process "$process_pid"
  if [ -z "$killed" ]; then assert_equal "$process_status" 0; fi
  if [ "$killed" = "$server_pid" ]; then
    wait_server
    serve out
  fi
}

# 200 replacements; a guest takes its time, and does 80.
@test "who reads during many replacements, some of them killed, finds each file whole, old or new" {
  local i reader reader_out sessions=8
  make_versions
  cp v4/* out/
  serve out
  start_process reader awk "$read_versions"
  reader=$process_pid reader_out=$process_out
  if [ "$fabric_threads" -gt 0 ]; then sessions=20; fi
  for ((i = 0; i < sessions; i++)); do replace_ten "$i"; done
  : > stop
  wait_process "$reader"
  assert_equal "$process_status $(< "$reader_out")" "0 $(< "$reader_out")"
  [ "$(< "$reader_out")" -ge 20 ] || fail "the reader saw $(< "$reader_out") contents, which proves little"
  wait_for is_swept
  stop_server
}
is_swept() { [ "$(ls -A out)" = "$(ls v0)" ]; }

@test "what a killed server left goes when the next one starts, and nothing else does" {
  local trap_rename
  need_command strace
  mkdir out/d
  echo old > out/d/f
  echo mine > "out/d/.f.rdmaput-0123456789abcde"
  echo mine > out/d/.f.swp
  # It dies where the file has its hidden name and not yet its own.
  server_wrapper=(strace -D -f -o trace -e 'trace=renameat,renameat2' -e 'inject=renameat,renameat2:signal=KILL')
  serve out
  run --separate-stderr rdmaput write a "$dest/d/f"
  assert_failure_of 75 ''
  wait_process "$server_pid"
  trap_rename=(out/d/.f.rdmaput-????????????????)
  assert_same a "${trap_rename[0]}"
  assert_equal "$(< out/d/f)" old
  server_wrapper=()
  serve out
  wait_for is_absent "${trap_rename[0]}"
  assert_dir_holds out/d .f.rdmaput-0123456789abcde .f.swp f
  assert_equal "$(< out/d/f)" old
  deliver d/f a
  stop_server
}

# bats test_tags=fast
@test "two clients on one name both end with 0, and the last to commit has it, whole" {
  serve out
  dest=$dest/f start_slow_client
  deliver f a
  assert_same a out/f
  end_slow_client
  assert_equal "$client_status" 0
  assert_equal "$(< out/f)" begin
  assert_dir_holds out f
  stop_server
}

@test "clients at the same time on one name all end with 0, and one whole object remains" {
  local i pids=() found=''
  serve out
  for i in 1 2; do
    make_file "b$i" $((600000 + i))
    start_process "client$i" "$RDMAPUT" write "b$i" "$dest/new/f"
    pids+=("$process_pid")
  done
  for i in "${pids[@]}"; do
    wait_process "$i"
    assert_equal "$process_status" 0
  done
  for i in 1 2; do
    if cmp -s "b$i" out/new/f; then found=$i; fi
  done
  [ -n "$found" ] || fail 'no whole object remains'
  assert_dir_holds out/new f
  stop_server
}

# ---- full disks -------------------------------------------------------------------------------------

# NAME - a served place of 16 MiB at out/, of which 12 MiB are taken
full_disk() {
  mount_at out -t tmpfs -o size=16M
  head -c 12M /dev/zero > out/taken
  make_file large 5000000
  echo old > out/f
  serve "$1"
}

# Nothing was left, and the next object is taken: NAME
assert_goes_on() {
  assert_equal "$(< out/f)" old
  wait_for is_without_rest
  rm out/taken
  deliver "$1" large
  assert_same large out/f
  stop_server
}
is_without_rest() { [ "$(ls -A out)" = $'f\ntaken' ]; }

# bats test_tags=fast
@test "an object of known size that the disk has no room for is refused before any data: 73" {
  full_disk out
  fails_to_deliver 73 'No space left on device' f --trace large
  [[ $stderr != *'sending CHUNK'* ]] || fail "data was sent: $stderr"
  assert_log 'out/f: cannot create: No space left on device'
  fails_to_deliver 73 'No space left on device' new/f large
  assert_goes_on f
}

@test "a stream that fills the disk is 74 at both ends, and nothing is left" {
  full_disk out
  run --separate-stderr rdmaput write - "$dest/f" < <(cat large)
  assert_failure_of 74 'No space left on device'
  assert_log 'out/f: cannot write: No space left on device'
  assert_goes_on f
}

@test "a FILE on a full disk fares likewise: 73 with the size known, 74 without" {
  full_disk out/f
  run --separate-stderr rdmaput write --trace large "$dest"
  assert_failure_of 73 'No space left on device'
  [[ $stderr != *'sending CHUNK'* ]] || fail "data was sent: $stderr"
  run --separate-stderr rdmaput write - "$dest" < <(cat large)
  assert_failure_of 74 'No space left on device'
  assert_log 'out/f: cannot write: No space left on device'
  assert_equal "$(< out/f)" old
  wait_for is_without_rest
  stop_server
}

# ---- many objects -----------------------------------------------------------------------------------

# bats test_tags=fast
@test "DEST ending in / makes an object of each file, named after it, in one session" {
  mkdir d
  make_file d/b 300000
  : > empty
  serve -v out
  deliver '' a d/b empty@
  deliver sub/er/ d/b@10+20 a
  assert_same a out/a
  assert_same d/b out/b
  assert_same empty out/empty
  assert_same a out/sub/er/a
  assert_equal "$(< out/sub/er/b)" "$(tail -c +11 d/b | head -c 20)"
  assert_dir_holds out a b empty sub
  assert_dir_holds out/sub/er a b
  assert_log 'committed, sub/er/b: 20 B in '
  stop_server
}

# bats test_tags=fast
@test "equal names, REMOTE and standard input are 64 where each file becomes an object" {
  mkdir d
  cp a d/a
  run --separate-stderr rdmaput write a d/a 192.0.2.1:1/
  assert_failure_of 64 'two segments would become one object of that name'
  run --separate-stderr rdmaput write a@1 a@2 192.0.2.1:1/x/
  assert_failure_of 64 'x/a: two segments'
  run --separate-stderr rdmaput write a=5 a@=5 192.0.2.1:1/
  assert_failure_of 64 REMOTE
  assert_hint "the '/' at the end of DEST"
  run --separate-stderr rdmaput write -t 192.0.2.1:1/ -
  assert_failure_of 64 'standard input has no name'
  assert_hint 'HOST[:PORT]/NAME'
}

@test "of many, those that fail are named and counted, and the others are committed" {
  mkdir out/c
  echo b > b
  echo c > c
  echo e > e
  serve out
  fails_to_deliver 66 '3 of 5 objects were committed, and 2 were not' '' a missing b c e
  assert_regex "$stderr" 'rdmaput: missing: .*No such file'
  assert_regex "$stderr" 'rdmaput: c: .*out/c: is a directory'
  assert_log 'out/c: is a directory'
  assert_same a out/a
  assert_same b out/b
  assert_same e out/e
  assert_dir_holds out a b c e
  assert_dir_holds out/c
  fails_to_deliver 73 '1 of 2 objects were committed, and 1 were not' '' c e
  fails_to_deliver 66 '0 of 1 objects were committed, and 1 were not' '' missing
  stop_server
}

@test "a session of many that is killed leaves what it has committed, whole, and nothing else" {
  mkfifo slow
  make_file b 300000
  serve out
  start_process client "$RDMAPUT" write --trace b slow a "$dest/"
  exec 7> slow
  echo begin >&7
  wait_for_text "$process_err" 'received DONE'
  assert_same b out/b
  kill -KILL "$process_pid"
  exec 7>&-
  wait_process "$process_pid"
  assert_log "rdmaput: $addr:"
  assert_dir_holds out b
  stop_server
}

@test "a client that waits for a FIFO's writer ends on a signal" {
  mkfifo slow
  make_file b 300000
  serve out
  start_process client "$RDMAPUT" write --trace b slow "$dest/"
  wait_for_text "$process_err" 'received DONE'
  kill -TERM "$process_pid"
  wait_process "$process_pid"
  assert_equal "$process_status" 143
  stop_server
  assert_dir_holds out b
}

# many/0 to many/999, of 0 to 64 KiB
make_many() {
  mkdir many
  head -c 49152 /dev/urandom | base64 -w 0 | awk '{
    srand(5)
    for (i = 0; i < 1000; i++) {
      file = "many/" i
      printf "%s", substr($0, rand() * 1000, i == 7 ? 0 : rand() * 65537) > file
      close(file)
    }
  }'
}

@test "1,000 small files in one session are equal, in at most 0.2 times the time of 1,000 sessions" {
  local i alone together
  make_many
  serve out
  read_clock
  together=-$now_ms
  deliver one/ many/*
  read_clock
  together=$((together + now_ms))
  diff -r many out/one
  # The time of 1,000 is 100 times that of 10.
  read_clock
  alone=-$now_ms
  for ((i = 0; i < 1000; i += 100)); do deliver "single/$i" "many/$i"; done
  read_clock
  alone=$(((alone + now_ms) * 100))
  echo "# 1,000 files: $together ms in one session, $alone ms in one each; ratio $(ratio $together $alone)" >&3
  [ $together -le $((alone / 5)) ] || fail "$together ms, and 1,000 sessions take $alone ms"
  stop_server
}
ratio() { printf '0.%03d' $(($1 * 1000 / $2)); }

# ---- attributes -------------------------------------------------------------------------------------

# FILE MODE - a file with times of long ago
make_old() {
  echo data > "$1"
  chmod "$2" "$1"
  touch -d '2001-02-03 04:05:06.123456789' "$1"
  touch -a -d '2002-03-04 05:06:07.987654321' "$1"
}

# bats test_tags=fast
@test "--preserve gives mode and times of the file, and never set-user-id and the like" {
  local wanted
  make_old a 7751
  make_old b 7751
  make_old c 421
  wanted=$(stat -c '751 %x %y' a)
  touch out/old
  chmod 640 out/old
  serve out
  deliver new --preserve a
  deliver old --preserve b
  assert_equal "$(stat -c '%a %x %y' out/new)" "$wanted"
  assert_equal "$(stat -c '%a %x %y' out/old)" "$wanted"
  deliver many/ --preserve b c
  assert_equal "$(stat -c '%n %a %y' out/many/*)" "$(stat -c "out/many/%n %a %y" b c | sed 's/ 7751 / 751 /')"
  stop_server
}

@test "without --preserve a new file has what the server's umask leaves, and a replaced one keeps its mode" {
  touch out/old
  chmod 6715 out/old
  chmod 777 a
  umask 026
  serve out
  umask 077
  deliver old a
  deliver new a
  deliver dir/new a
  assert_equal "$(stat -c %a out/old)" 715
  assert_equal "$(stat -c %a out/new)" 640
  assert_equal "$(stat -c %a out/dir/new)" 640
  assert_equal "$(stat -c %a out/dir)" 751
  stop_server
}

@test "--preserve of several files in one object, or of no file, is 64" {
  echo b > b
  run --separate-stderr rdmaput write --preserve a b 192.0.2.1:1/f
  assert_failure_of 64 '--preserve goes with segments of one file'
  run --separate-stderr rdmaput write --preserve - 192.0.2.1:1/f < <(echo data)
  assert_failure_of 64 '--preserve goes with segments of one file'
  serve out
  deliver f --preserve a@1+2 a@0+1
  assert_equal "$(< out/f)" atd
}

# ---- --no-clobber -----------------------------------------------------------------------------------

# bats test_tags=fast
@test "--no-clobber refuses what exists: 73 and a hint, and the old file is untouched" {
  local before
  echo old > out/f
  echo other > f
  mkdir out/d
  ln -s nowhere out/link
  before=$(snapshot out/f out/d out/link)
  serve --no-clobber out
  fails_to_deliver 73 'out/f: exists already' f --trace a
  [[ $stderr != *'sending CHUNK'* ]] || fail "data was sent: $stderr"
  assert_hint 'serve without --no-clobber'
  fails_to_deliver 73 exists d a
  fails_to_deliver 73 exists link a
  deliver new a
  fails_to_deliver 73 'out/new: exists already' new a
  fails_to_deliver 73 '1 of 2 objects were committed' '' a f
  assert_equal "$(snapshot out/f out/d out/link)" "$before"
  assert_dir_holds out a d f link new
  stop_server

  run --separate-stderr rdmaput serve --no-clobber --bind "$addr" --port 0 out/f
  assert_failure_of 73 'exists already'
  assert_hint 'serve without --no-clobber'
  serve --no-clobber out/g
  rdmaput write a "$dest"
  run --separate-stderr rdmaput write a "$dest"
  assert_failure_of 73 'exists already'
  stop_server
  assert_equal "$(snapshot out/f out/d out/link)" "$before"
}

@test "--no-clobber replaces no file that appears during the transfer" {
  local before
  serve --no-clobber out
  dest=$dest/f start_slow_client
  echo other > out/f
  before=$(snapshot out/f)
  end_slow_client
  assert_equal "$client_status" 73
  assert_regex "$(< "$client_err")" 'out/f: exists already'
  assert_equal "$(snapshot out/f)" "$before"
  dest=$dest/new/f start_slow_client
  deliver new/f a
  end_slow_client
  assert_equal "$client_status" 73
  assert_same a out/new/f
  assert_dir_holds out f new
  assert_dir_holds out/new f
  stop_server
}

# ---- --sync -----------------------------------------------------------------------------------------

# ARG... - a server whose system calls go to the file trace
serve_traced() {
  need_command strace
  server_wrapper=(strace -D -f -y -s 100 -o trace
    -e 'trace=fsync,fdatasync,syncfs,sync,sync_file_range,rename,renameat,renameat2,mkdirat,write')
  serve --trace "$@"
}

# One line for each of those calls when it has returned, from the trace: "fsync out/x", "rename", "DONE"
traced() {
  awk -v here="$PWD/" '
    # Calls of several threads: what one had begun is in the way of another one.
    / <unfinished \.\.\.>$/ { sub(/ <unfinished \.\.\.>$/, ""); begun[$1] = $0; next }
    / resumed>/ { pid = $1; sub(/.* resumed>/, ""); $0 = begun[pid] $0 }
    { while (at = index($0, here)) $0 = substr($0, 1, at - 1) substr($0, at + length(here)) }
    match($0, /^[0-9]+ +[a-z0-9_]+\(/) { call = substr($0, 1, RLENGTH - 1); sub(/^[0-9]+ +/, "", call) }
    match($0, /<[^>]*>/) { path = substr($0, RSTART + 1, RLENGTH - 2) }
    call ~ /sync/ {
      if (path ~ /^out\/(.*\/)?(#|\.f\.rdmaput-)/) path = "file"
      print call, path
    }
    call == "mkdirat" && / = 0$/ { split($0, quoted, "\""); print "mkdir", path "/" quoted[2] }
    call ~ /^rename/ && /"f"[^"]* = 0$/ { print "rename" }
    call == "write" && /: sending DONE/ { print "DONE" }
  ' trace
}

assert_traced() { assert_equal "$(traced)" "$(printf '%s\n' "$@")"; }

@test "--sync of the client: file, name and directory are on stable storage before it hears so" {
  serve_traced out
  deliver f --sync a
  stop_server
  assert_traced 'fsync file' rename 'fsync out' DONE
}

@test "--sync of the server: also the directories that were made, and with FILE" {
  serve_traced --sync out
  deliver new/er/f a
  stop_server
  assert_traced 'mkdir out/new' 'fsync out' 'mkdir out/new/er' 'fsync out/new' 'fsync file' rename \
    'fsync out/new/er' DONE
  serve_traced --sync out/f
  rdmaput write a "$dest"
  stop_server
  assert_traced 'fsync file' rename 'fsync out' DONE
}

@test "without --sync nothing is synced" {
  serve_traced out
  deliver new/f a
  stop_server
  assert_traced 'mkdir out/new' rename DONE
}

@test "--sync: what cannot be synced is 74, and does not appear" {
  need_command strace
  echo old > out/f
  server_wrapper=(strace -D -f -o trace -e trace=fsync -e inject=fsync:error=EIO)
  serve out
  fails_to_deliver 74 'Input/output error' f --sync a
  assert_equal "$(< out/f)" old
  assert_dir_holds out f
  deliver f a
  stop_server
}

# ---- sources that fail or change ----------------------------------------------------------------------

# FILE ARG... - rdmaput ARG..., to which FILE cannot be read after 1 MiB, 256 KiB at a time
with_bad_file() { with_failure pread 5 "$1" rdmaput "${@:2}"; }

@test "a file that cannot be read after 1 MiB is 74, nothing is committed, and the server says so" {
  make_file bad 1500000
  echo old > out/f
  serve out
  run --separate-stderr with_bad_file bad write bad "$dest/f"
  assert_failure_of 74 'bad: cannot read: Input/output error'
  assert_log 'Input/output error'
  assert_dir_holds out f
  assert_equal "$(< out/f)" old
  run --separate-stderr with_bad_file bad write a bad "$dest/"
  assert_failure_of 74 '1 of 2 objects were committed, and 1 were not'
  [[ $stderr == *'bad: '*'Input/output error'* ]] || fail "$stderr"
  assert_dir_holds out a f
  # Up to there it is good.
  with_bad_file bad write bad@+1048576 "$dest/f"
  stop_server
}

# TEXT COMMAND... - COMMAND changes the file s between its opening and its reading, which is 65 and TEXT
is_noticed() {
  head -c 300000 /dev/zero > s
  rm -f slow
  mkfifo slow
  start_process "client${#background_pids[@]}" "$RDMAPUT" write --trace -t "$dest/f" slow s
  exec 7> slow
  echo begin >&7
  wait_for_text "$process_err" 'received GRANT'
  "${@:2}"
  exec 7>&-
  wait_process "$process_pid"
  assert_equal "$process_status ${*:2}" "65 ${*:2}"
  assert_regex "$(< "$process_err")" "rdmaput: s: .*$1"
  assert_equal "$(< out/f)" old
}
grow() { echo more >> s; }
shrink() { truncate -s 100000 s; }
rewrite() { printf x 1<> s; }
rewrite_as_before() {
  touch -r s times
  printf x 1<> s
  touch -r times s
}
exchange() { cp s other && mv other s; }

@test "a source that grows, shrinks, is rewritten or exchanged before it is read is 65" {
  echo old > out/f
  serve out
  is_noticed 'changed while it was read' grow
  is_noticed 'became shorter while it was read' shrink
  is_noticed 'changed while it was read' rewrite
  is_noticed 'changed while it was read' rewrite_as_before
  is_noticed 'changed while it was read' exchange
  assert_dir_holds out f
  stop_server
}

# Says number N in 65,536 lines, from the start of the file s on, in many small writes: at any moment the
# file is what came before, or begins with lines of N and goes on with N-1.
# shellcheck disable=SC2016 # for the other shell
rewriter='
  for ((n = ${1}; n < ${2}; n++)); do
    printf -v text "%07d\n" $n
    for i in {1..16}; do text=$text$text; done
    printf %s "$text" 1<> s
    read -rt "0.$((RANDOM % 6))" -u 9 || true
  done 9<> fifo'

# FILE - what the rewriter can have left in s at one moment
is_of_one_moment() {
  awk 'NR > 1 && $1 != last { changes++; if ($1 != last - 1) exit odd = 1 }
    { last = $1 }
    END { exit odd || changes > 1 || NR != 65536 }' "$1" || fail "$1 is torn: $(uniq -c "$1" | head)"
}

@test "a source that another process rewrites all the time is 65, or what it was at one moment" {
  local i
  mkfifo fifo
  bash -c "$rewriter" rewriter 0 1
  serve out
  start_process rewriter bash -c "$rewriter" rewriter 1 1000
  for i in 1 2 3 4 5 6 7 8; do
    run --separate-stderr rdmaput write s "$dest/f"
    case $status in
      0) is_of_one_moment out/f; rm out/f ;;
      65) assert_dir_holds out ;;
      *) fail "status $status: $stderr" ;;
    esac
  done
  stop_server
}

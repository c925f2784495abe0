# rsh.bats - write -e: the server is started at the far end, serves this client alone, and ends with it. On
# the fake fabric: what is not about the device is the same over all of them.
# shellcheck disable=SC2016 # code for other shells
# shellcheck disable=SC2034,SC2154 # variables of lib/common.bash and lib/rsh.bash
load lib/common
load lib/rsh

setup() {
  common_setup
  use_fake_fabric roce
  setup_rsh
  make_file a 1500000
  make_file b 100
}

# ---- what arrives ----------------------------------------------------------------------------

# bats test_tags=fast
@test "a file, a pipe, and files each by its name arrive, and nothing is said" {
  run put a host/x
  assert_run 0
  assert_output ''
  assert_same a far/x
  run put - joe@host/piped < b
  assert_run 0
  assert_output ''
  assert_same b far/piped
  mkdir far/many
  run put a b host/many/
  assert_run 0
  assert_output ''
  assert_same a far/many/a
  assert_same b far/many/b
  run put a@+10 b@+5=10 '[fd00::2]/pieces'
  assert_run 0
  assert_equal "$(cksum < far/pieces)" "$({ head -c 10 a; head -c 5 b; } | cksum)"
  WAIT_LIMIT=5 wait_for far_ends_are_gone
  # HOST as ssh takes it
  assert_equal "$(cut -d ' ' -f 1 lines | tr '\n' ' ')" 'host joe@host host fd00::2 '
}

@test "PATH is the far end's own: of the login, or from the root; a directory or a file" {
  mkdir far/dir
  put a host
  assert_same a far/a
  put b host/dir
  assert_same b far/dir/b
  put b host/
  assert_same b far/b
  put b "host/$PWD/far/absolute"
  assert_same b far/absolute
  put a "host/$PWD/far/dir/"
  assert_same a far/dir/a
  put -t host/dir/b a
  assert_same a far/dir/b
}

@test "what is missing at the far end is not made, and is 73 with its words" {
  run put a host/missing/x
  assert_run 73 'rdmaput: host: missing/x: cannot create: No such file or directory' \
    'rdmaput: host: hint: ' 'rdmaput: host: the server there ended with status 73'
  run put --json-file told a host/missing/x
  assert_equal "$(jq -r '.error.message + " - " + .far_end.message' told)" \
    'the server there ended with status 73 - missing/x: cannot create: No such file or directory'
  [ -n "$(jq -r '.far_end.hint // empty' told)" ]
  run put --json-file told a host/a
  assert_equal "$(jq -c .far_end told)" null
  rm far/a
  run put a host/missing/
  assert_run 73 'rdmaput: host: missing/: cannot serve this directory'
  mkdir far/dir
  run put a b host/dir
  assert_run 73 'host/dir: is a directory there, and the object has no name' 'hint: name it: host/dir/NAME'
  run put - host/dir < a
  assert_run 73 'is a directory there'
  assert_dir_holds far dir
  assert_dir_holds far/dir
  WAIT_LIMIT=5 wait_for far_ends_are_gone
}

@test "names are what they are, whatever a shell would make of them" {
  local name names=('a b' "it's" '"q"' $'new\nline' - -rf '$(touch x)' '`touch x`' '*' '~' $'\\' "''" 'a;b&c|d' '#' é)
  for name in "${names[@]}"; do
    run put b "host/$name"
    assert_run 0
    assert_output ''
    assert_same b "far/$name"
  done
  mkdir 'far/a directory' "a 'program"
  put b 'host/a directory/'
  assert_same b 'far/a directory/b'
  cp bin/rdmaput "a 'program/-"
  run put --remote-program "$PWD/a 'program/-" a host/x
  assert_run 0
  assert_same a far/x
  assert_equal "$(find far -type f -printf x)" "$(printf 'x%.0s' "${names[@]}" 'a directory/b' x)"
}

@test "modes, times, holes and stable storage go with it" {
  printf x > sparse
  truncate -s 4M sparse
  chmod 640 sparse
  touch -d '2001-02-03 04:05:06' sparse
  put --preserve --sync --sparse=auto --map=never sparse host/
  assert_same sparse far/sparse
  assert_equal "$(stat -c '%a %Y' far/sparse)" "$(stat -c '%a %Y' sparse)"
  [ "$(stat -c %b far/sparse)" -lt 1024 ] || fail "$(stat far/sparse)"
}

@test "what an interrupted client has left is gone on from" {
  local hold
  make_file large 6M
  mkfifo trace
  # A pipe of four pages that nobody reads holds the client up.
  exec {hold}<> trace
  perl -e 'fcntl(STDIN, 1031, 16384) or die "the pipe: $!\n"' <&"$hold"
  errors=trace start_put resumed --resume --trace large host/
  wait_for has_part
  kill -TERM "$client_pid"
  wait_put
  assert_equal "$process_status" 143
  exec {hold}>&-
  WAIT_LIMIT=5 wait_for far_ends_are_gone
  has_part
  run put --resume -v --json-file document --progress-fd 9 large host/ 9> told
  assert_run 0 'resumed: ' 'delivered 6.00 MiB, of which ' ' were there, in '
  # What was there before is no speed.
  jq -se '(.[0].sent_bytes * 1e9 / .[1].duration_ns - .[1].bytes_per_second | fabs) <= 1' \
    document <(tail -n 1 told)
  assert_same large far/large
  assert_dir_holds far large
}
has_part() { [ -s "$(echo far/.large.rdmaput-part-*)" ]; }

@test "the command is split as rsync's is, and its words come before HOST" {
  make_rsh 'my rsh' 'printf "<%s>" "$@" > "$here/words"' 'exit 255'
  run put -e "'./my rsh'  -p 22 -o \"A b\" 'it''s' ''" a u@h/x
  assert_run 69
  assert_equal "$(< words)" "<-p><22><-o><A b><it's><><u@h><$program><serve><--control><--timeout><30000ms><x>"
}

@test "--port is where the server listens, and -v and -q are for both ends" {
  run put -v a host/x
  assert_run 0 'rdmaput: host: serving on ' "file 'x', for anybody with the secret" \
    'rdmaput: host: ' 'committed' 'host/x: delivered'
  refute_line --regexp '^rdmaput: host: rdmaput: '
  [[ $output =~ serving\ on\ [^\ ]*:([0-9]+): ]]
  run put -v --port "${BASH_REMATCH[1]}" a host/x
  assert_run 0 ":${BASH_REMATCH[1]}: file 'x'"
  run put -q a host/missing/x
  assert_run 73 'rdmaput: host: missing/x: cannot create'
  assert_equal "$(grep -c -e ' -v ' lines)" 2
  assert_equal "$(grep -c -e ' -q ' lines)" 1
}

@test "-n runs no command, and neither does a source that cannot be opened" {
  put -n a host/x
  run put missing host/x
  assert_run 66
  [ ! -e lines ] || fail "$(< lines)"
}

@test "a failure that may pass is tried again, with the command" {
  make_rsh rsh 'if [ ! -e "$here/again" ]; then touch "$here/again"; echo not yet >&2; exit 75; fi' \
    shift 'cd "$here/far"' 'exec sh -c "$*"'
  run put --retry 1 a host/x
  assert_run 0 'rdmaput: host: not yet' 'trying again in' '(1 of 1)'
  assert_same a far/x
}

@test "of the far end's addresses one that reaches it is taken" {
  [ -n "$(ip -o address show up scope global)" ] || lack 'this host has no address but those of loopback'
  printf '%s\n' '#!/bin/sh' 'exec "$RDMAPUT" "$@"' > bin/rdmaput
  run put -v a host/x
  assert_run 0 'serving on '
  assert_same a far/x
}

@test "an address of the far end that says nothing here is passed over" {
  make_rsh rsh shift 'cd "$here/far"' 'sh -c "$*" | sed -u "s/^rdmaput-control.*/&\n[fe80::1%nosuch]:7475/"'
  run put a host/x
  assert_run 0
  assert_same a far/x
}

# ---- usage -------------------------------------------------------------------------------------

@test "what does not go with -e is a usage error that says so" {
  local line
  while read -r line; do
    eval "set -- ${line%% # *}"
    run put "$@"
    assert_run 64 "${line##* # }"
  done << 'END'
--exchange=tcp a host/x # exclude each other
--secret-file b a host/x # excludes --secret-file
--wait 1s a host/x # excludes --wait
-e '' a host/x # a COMMAND is due
-e "ssh 'x" a host/x # a quote does not close
a host:22/x # hint: that of ssh is part of the command
a host:/srv/x # HOST//PATH from the root
a host:srv # HOST//PATH from the root
a fd00::2/x # is IPv6 without brackets
a @host/x # that is no user
a -- -host/x # no host name begins with '-'
a -- -l@host/x # that is no user
a /x # there is no HOST
END
  run rdmaput write --remote-program x a host/x
  assert_run 64 '--remote-program goes with -e'
  run rdmaput serve --control -
  assert_run 64 '--control goes with FILE or DIR'
  run rdmaput serve --control --secret-file x far
  assert_run 64 '--control excludes --secret-file'
  [ ! -e lines ] || fail "$(< lines)"
}

# ---- far ends that are none ----------------------------------------------------------------------

# STATUS TEXT LINE... - with this script for COMMAND, the client ends so at once, and says so
far_end_is() {
  make_rsh other "${@:3}"
  run within "$RSH_TIMEOUT_MS" put -e ./other a host/x
  assert_run "$1" "$2"
}

@test "a command that cannot be run, or brings no server, is named: 69" {
  run put -e ./nonesuch a host/x
  assert_run 69 './nonesuch: cannot run this command: No such file or directory' 'hint: -e takes'
  run put --remote-program /nonesuch a host/x
  assert_run 69 "host: the program '/nonesuch' cannot be run there" 'hint: install rdmaput there' 'rdmaput: host: sh: '
  far_end_is 69 "host: the program '$program' cannot be run there" 'exit 126'
  far_end_is 69 "host: './other' ended with status 255: no login there" 'echo denied >&2' 'exit 255'
  assert_output --partial 'rdmaput: host: denied'
  far_end_is 69 "host: './other' ended with status 1, and no server was there" 'exit 1'
  far_end_is 69 "ended with status 0, and no server was there" 'exit 0'
}

@test "what the server there fails of is the client's status" {
  local status
  for status in 69 71 73 74 75 76; do
    far_end_is $status "host: the server there ended with status $status" 'echo why >&2' "exit $status"
    assert_output --partial 'rdmaput: host: why'
  done
  far_end_is 75 "host: './other' was killed by signal 9" 'kill -KILL $$'
}

@test "other versions, and what is no rdmaput, are found out: 76" {
  far_end_is 76 'does not know how to serve this one' 'echo "unrecognized option" >&2' 'exit 64'
  far_end_is 76 "something else than the server has printed there: 'Welcome to" \
    'echo "Welcome to host"' 'exec "$RDMAPUT" serve --control far'
  far_end_is 76 'the rdmaput there is of another version' 'echo rdmaput-control 2 1 file' 'exec sleep 9'
  far_end_is 76 'version 999 of the protocol' 'printf "rdmaput-control 1 999 file\n10.0.0.1:1\n\n"' 'exec sleep 9'
  far_end_is 76 'something else than the server' 'printf "rdmaput-control 1 1 pipe\n10.0.0.1:1\n\n"' 'exec sleep 9'
  far_end_is 76 'an address that is none: host.example:1' \
    'printf "rdmaput-control 1 1 file\nhost.example:1\n\n"' 'exec sleep 9'
  far_end_is 76 'something else than the server' 'printf "rdmaput-control 1 1 file\n\0\n\n"' 'exec sleep 9'
  far_end_is 76 'something else than the server' 'echo rdmaput-control 1 1 file' 'exec yes 10.0.0.1:1'
  far_end_is 76 "printed there: '?[31m" 'printf "\033[31m\n"' 'exec sleep 9'
}

@test "an answer that comes in pieces is understood, and half of one is none" {
  make_rsh rsh shift 'cd "$here/far"' 'sh -c "$*" | while read -r line; do printf "%s" "$line"; sleep 0.05; echo; done'
  run put a host/x
  assert_run 0
  assert_same a far/x
  far_end_is 69 'ended with status 3, and no server was there' 'printf "rdmaput-control 1 1 fi"' 'exit 3'
}

@test "a command that hangs ends in time, and nothing of it is left: 75" {
  local line
  for line in 'exec sleep 600' 'printf rdmaput-control; exec sleep 600' 'exec >&-; exec sleep 600' \
    'trap "" TERM; while :; do sleep 0.05; done'; do
    make_rsh other 'echo $$ >> "$here/far-pids"' "$line"
    run within $((300 + RSH_SLACK_MS)) put -q --timeout 300ms -e ./other a host/x
    assert_run 75 'rdmaput: host: '
    far_ends_are_gone || fail "left: $(< far-pids)"
  done
  assert_equal "$(wc -l < far-pids)" 4
}

@test "a far end that cannot be reached by RDMA is told so, and ends" {
  printf '%s\n' '#!/bin/sh' 'echo $$ >> "'"$PWD"'/far-pids"' \
    '"$RDMAPUT" "$@" --bind '"$addr"' | sed -u "s/^.*:\([0-9]*\)$/192.0.2.99:\1/"' > bin/rdmaput
  run within $((10000 + RSH_SLACK_MS)) put --timeout 10s a host/x
  case $status in 69 | 75) ;; *) fail "$status: $output" ;; esac
  assert_output --partial 192.0.2.99
  WAIT_LIMIT=5 wait_for far_ends_are_gone
  assert_dir_holds far
}

# ---- what ends first -----------------------------------------------------------------------------

# bats test_tags=fast
@test "a client that is killed leaves nothing at the far end" {
  start_fed_put
  kill -KILL "$client_pid"
  wait_put
  assert_equal "$process_status" 137
  assert_nothing_left
}

@test "a client that is killed before it has connected leaves no server waiting for it" {
  make_rsh rsh shift 'cd "$here/far"' 'exec sh -c "$*" > "$here/answer"'
  start_put early a host/x
  wait_for test -s answer
  kill -KILL "$client_pid"
  wait_put
  WAIT_LIMIT=5 wait_for far_ends_are_gone
  assert_dir_holds far
  # A login that hangs does not look at its standard input.
  make_rsh rsh 'echo $$ > "$here/far-pids"' 'exec sleep 600'
  : > far-pids
  start_put login a host/x
  wait_for test -s far-pids
  kill -KILL "$client_pid"
  wait_put
  WAIT_LIMIT=5 wait_for far_ends_are_gone
}

@test "a signal ends both ends" {
  local signal
  for signal in INT TERM HUP; do
    rm -f pipe
    start_fed_put
    kill -$signal "$client_pid"
    wait_put
    assert_equal "$process_status" $((128 + $(kill -l $signal)))
    assert_nothing_left
    exec {feed}>&-
  done
  make_rsh rsh 'echo $$ >> "$here/far-pids"' 'exec sleep 600'
  rm far-pids # of those before
  start_put early a host/x
  wait_for test -s far-pids
  kill -INT "$client_pid"
  wait_put
  assert_equal "$process_status" 130
  assert_nothing_left
}

@test "a far end that is killed, or aborted, ends the client in time: 75" {
  local signals
  for signals in KILL 'TERM TERM'; do
    rm -f pipe
    start_fed_put
    for signal in $signals; do
      kill -"$signal" "$(tail -n 1 far-pids)"
      if [ "$signals" != KILL ]; then wait_for_text "$client_err" 'Terminated: no new sessions'; fi
    done
    wait_put
    assert_equal "$process_status" 75
    assert_nothing_left
    exec {feed}>&-
  done
}

@test "what the server fails of is the status where the connection breaks, and a status of the command is told" {
  make_rsh rsh shift 'cd "$here/far"' 'sh -c "$*"' '[ ! -e "$here/status" ] || exit "$(cat "$here/status")"'
  local end
  while read -r -a end; do
    rm -f pipe
    start_fed_put
    echo "${end[0]}" > status
    kill -KILL "$(tail -n 1 far-pids)"
    wait_put
    assert_equal "$process_status" "${end[1]}"
    assert_file_contains "$client_err" "bytes were acknowledged; ${end[*]:2}"
    assert_nothing_left
    exec {feed}>&-
  done << 'END'
74 74 the server ended with status 74
255 75 './rsh' ended with status 255
END
}

@test "a connection of the command that breaks ends both ends" {
  # The far end's standard input comes through a process that can be killed.
  make_rsh rsh shift 'cd "$here/far"' 'mkfifo "$here/through"' 'cat <&3 > "$here/through" 3<&- &' \
    'echo $! > "$here/carrier"' 'exec sh -c "$*" < "$here/through" 3<&-'
  sed -i '2a exec 3<&0' rsh
  start_fed_put
  kill "$(< carrier)"
  wait_put
  assert_equal "$process_status" 75
  assert_file_contains "$client_err" 'rdmaput: host: .*the client that started this server is gone'
  assert_nothing_left
}

@test "of many objects one that fails here is the status, and the others are there" {
  run put a missing b host/
  assert_run 66 'missing: cannot open'
  assert_same a far/a
  assert_same b far/b
  assert_dir_holds far a b
  WAIT_LIMIT=5 wait_for far_ends_are_gone
}

@test "a server that does not end after all is committed is left, and the write has succeeded" {
  make_rsh rsh shift 'cd "$here/far"' 'sh -c "$*"' 'echo $$ >> "$here/far-pids"' 'exec sleep 600'
  run within $((300 + 2000 + RSH_SLACK_MS)) put --timeout 300ms a host/x
  assert_run 0 'rdmaput: host: all is committed, but the server there did not end'
  assert_same a far/x
  far_ends_are_gone || fail "left: $(< far-pids)"
  make_rsh rsh shift 'cd "$here/far"' 'sh -c "$*"' 'exit 3'
  run put a host/x
  assert_run 0 "all is committed, but './rsh' ended with status 3"
}

# ---- the secret ------------------------------------------------------------------------------------

@test "the secret is another one each time, and nobody sees it or gets in without it" {
  local secret port
  make_rsh rsh shift 'cd "$here/far"' 'mkfifo "$here/through.$$"' \
    'tee -a "$here/said" <&3 > "$here/through.$$" 3<&- &' 'exec sh -c "$*" < "$here/through.$$" 3<&-'
  sed -i '2a exec 3<&0' rsh
  put b host/b
  rm far/b
  start_fed_put
  secret=$(tail -n 1 said)
  secret=${secret##* }
  [[ $secret =~ ^[0-9a-f]{64}$ ]] || fail "$secret"
  assert_equal "$(sort -u said | wc -l)" 2
  run grep -lsF "$secret" /proc/[0-9]*/cmdline /proc/[0-9]*/environ "$client_err"
  assert_output ''
  [[ $(< "$client_err") =~ serving\ on\ [^\ ]*:([0-9]+): ]]
  port=${BASH_REMATCH[1]}
  run rdmaput write a "$addr:$port"
  assert_run 69 'access refused'
  (umask 077 && echo "${secret//[0-9]/0}" > other)
  run rdmaput write --secret-file other a "$addr:$port"
  [ "$status" -ne 0 ] || fail 'another secret was taken'
  exec {feed}>&-
  wait_put
  assert_equal "$process_status" 0
  assert_same source far/object
}

@test "a secret of the environment is not for -e" {
  (umask 077 && openssl rand -hex 32 > secret)
  export RDMAPUT_SECRET_FILE=$PWD/secret
  put a host/x
  assert_same a far/x
}

# ---- the far end by itself -------------------------------------------------------------------------

@test "serve --control wants a secret, and ends with its standard input" {
  run rdmaput serve --control far < /dev/null
  assert_run 76 'no secret came on standard input' "hint: 'serve --control' is what 'rdmaput write -e COMMAND'"
  run rdmaput serve --control far <<< hello
  assert_run 76 'no secret came'
  run rdmaput serve --control far <<< "rdmaput-control 2 x"
  assert_run 76 'of another version'
  run within $((1000 + RSH_SLACK_MS)) rdmaput serve --timeout 1s --control far <&"$nap_fd"
  assert_run 75 'no secret came'
  run rdmaput serve --control --bind "$addr" far <<< "rdmaput-control 1 $(printf '%064d' 0)"
  assert_run 0
  assert_line --index 0 'rdmaput-control 1 1 directory'
  assert_line --index 1 --partial "$addr:"
  mkfifo control
  input=control start_process control "$RDMAPUT" serve --timeout 100ms --control --bind "$addr" far
  exec {feed}> control
  echo "rdmaput-control 1 $(printf '%064d' 0)" >&"$feed"
  # A client whose host has vanished does not end standard input.
  wait_process "$process_pid" 5
  assert_equal "$process_status" 75
  assert_file_contains "$process_err" 'no transfer began within 1.7 s'
}

# ---- the terminal ----------------------------------------------------------------------------------

@test "the command may ask for a password on the terminal" {
  need_command script
  make_rsh rsh shift 'printf "password: " > /dev/tty' 'read -r answer < /dev/tty' '[ "$answer" = open ] || exit 255' \
    'cd "$here/far"' 'exec sh -c "$*"'
  # shellcheck disable=SC2094 # script writes it
  run script -qefc "'$RDMAPUT' write --timeout 10s -e ./rsh --remote-program '$program' a host/x" typescript < <(
    wait_until grep -qs password typescript
    echo open)
  assert_run 0 'password: '
  assert_same a far/x
}

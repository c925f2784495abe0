# The command line: what it prints and what it refuses. No test here needs a device.
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

load lib/common

# STATUS TEXT ARG... - the program ends with STATUS, prints nothing on standard output, and on
# standard error a line that begins as its messages do, and TEXT
refused() {
  local expected=$1 text=$2 got=0
  shift 2
  stderr=$(rdmaput "$@" 2>&1 > stdout < /dev/null) || got=$?
  [ "$got" = "$expected" ] || fail "status $got, not $expected, of: rdmaput $* ($stderr)"
  [ ! -s stdout ] || fail "standard output is not empty, of: rdmaput $*"
  [[ $stderr == rdmaput* ]] || fail "no message of rdmaput: $stderr"
  [[ $stderr == *"$text"* ]] || fail "'$text' is not in the message of: rdmaput $* ($stderr)"
  rm stdout
}
# As it, and a hint holds TEXT.
refused_with_hint() {
  refused "$@"
  [[ $stderr == *"hint: "*"$2"* ]] || fail "'$2' is not in a hint: $stderr"
}

# LINE... - what `write -n` printed before its last line; fields in LINE with spaces for tabs
assert_plan() {
  local expected
  expected=$(printf '%s\n' "${@// /$'\t'}")
  assert_equal "$status" 0
  assert_equal "${output%$'\n'*}" "$expected"
  assert_regex "${lines[-1]}" '^# '
}
plan() { run rdmaput write -n -t host -- "$@"; }

# COMMAND - the long options that its help lists; the column of texts may name others
options_in_help() {
  "$RDMAPUT" "$1" --help | cut -c -28 | grep -E '^ +-' | grep -oE -e '--[a-z][a-z-]*' | sort -u
}
# The commands that the program's help lists
commands_in_help() { "$RDMAPUT" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'; }
in_order() { printf '%s\n' "$@" | sort -u; }

has_device() { "$RDMAPUT" devices > /dev/null 2>&1; }

# ---- help, version, commands ------------------------------------------------------------------

# bats test_tags=fast
@test "help is standard output and status 0, for the program and each command" {
  local command
  for command in '' serve write post check devices; do
    run --separate-stderr rdmaput $command --help
    assert_equal "$status" 0
    assert_equal "$stderr" ''
    assert_regex "$output" "^Usage: rdmaput ${command}"
  done
  run rdmaput --help
  assert_run 0 serve write post check devices
}

@test "the help of a command lists the options that exist, and no others" {
  local common=(--help --json --json-file --quiet --timeout --trace --usage --verbose --version)
  assert_equal "$(options_in_help devices)" "$(in_order "${common[@]}")"
  assert_equal "$(options_in_help write)" "$(in_order "${common[@]}" \
    --bind --exchange --exchange-port --literal --map --null --plan --port --preserve --progress --progress-fd --remote-program --resume \
    --retry --rsh --secret-file --segments-from --sparse --sync --to --tos --wait)"
  assert_equal "$(options_in_help post)" "$(in_order "${common[@]}" \
    --bind --context --flags --literal --null --port --progress --progress-fd --remote-addr --retry --rkey --segments-from --tos --wait)"
  assert_equal "$(options_in_help check)" "$(in_order "${common[@]}" \
    --bind --duration --format --max-latency --min-bandwidth --percentile --port --quick --secret-file --tos --wait)"
  assert_equal "$(options_in_help serve)" "$(in_order "${common[@]}" \
    --allow --bind --control --discard --dump --exchange-port --in-place --keep-partial --map \
    --max-memory --max-sessions --no-check --no-clobber --once --port --ready-file --region --secret-file --sync --ticket --wait)"
}

# bats test_tags=fast
@test "help is had by what people try first, too" {
  "$RDMAPUT" --help > program
  "$RDMAPUT" write --help > write
  for words in help -h; do "$RDMAPUT" $words | diff program -; done
  for words in 'help write' 'write -h'; do
    # shellcheck disable=SC2086 # words
    "$RDMAPUT" $words | diff write -
  done
  refused_with_hint 64 "see 'rdmaput --help'" help write more
}

@test "without a command the program explains itself in about ten lines on standard error, with status 64" {
  local command
  run --separate-stderr rdmaput
  assert_equal "$status" 64
  assert_equal "$output" ''
  [ ${#stderr_lines[@]} -ge 6 ] && [ ${#stderr_lines[@]} -le 12 ] || fail "${#stderr_lines[@]} lines"
  for command in $(commands_in_help); do
    [[ $stderr == *"  rdmaput $command "* ]] || fail "'$command' is not in: $stderr"
  done
  [[ $stderr == *"'rdmaput COMMAND --help'"* ]] || fail "$stderr"
}

@test "a misspelt command gets a suggestion, and one that is like none does not" {
  refused_with_hint 64 "did you mean 'write'?" wirte a host
  refused_with_hint 64 "did you mean 'devices'?" device
  refused_with_hint 64 "did you mean 'serve'?" --  srve
  refused_with_hint 64 "see 'rdmaput --help'" frobnicate
  refused_with_hint 64 "see 'rdmaput --help'" ''
  refused_with_hint 64 "did you mean '--version'?" --verison
  [[ $stderr == *"'--verison' is no option of 'rdmaput'"* ]] || fail "$stderr"
}

@test "a misspelt option gets a suggestion, in each command, with a value and among arguments" {
  refused_with_hint 64 "did you mean '--preserve'? 'rdmaput write --help'" write --presrve a host
  [[ $stderr == *"'--presrve' is no option of 'rdmaput write'"* ]] || fail "$stderr"
  refused_with_hint 64 "did you mean '--timeout'?" write a --tiemout=5 host
  refused_with_hint 64 "did you mean '--segments-from'?" post --segment-form list
  refused_with_hint 64 "did you mean '--discard'?" serve --discrad
  refused_with_hint 64 "did you mean '--json'?" devices --jsno
  refused_with_hint 64 "did you mean '--resume'?" write -qnt --resum --resmue a
  refused_with_hint 64 "see 'rdmaput write --help'" write --frobnicate a host
}

@test "what is no misspelt option is taken as it was" {
  make_file a 10
  make_file ./--presrve 10
  run rdmaput write -n --preserve -- --presrve host
  assert_run 0 '--presrve'
  run rdmaput write -n -t --presrve a # a value
  assert_run 0
  run rdmaput write -n --pres a host # an option may be shortened
  assert_run 0
  refused 64 'ambiguous' write --s a host
  refused 64 'requires an argument' write --bind
}

@test "the help of the program and of each command has examples, whose options exist" {
  local command example option
  for command in '' $(commands_in_help); do
    "$RDMAPUT" ${command:+"$command"} --help > help
    sed '1,/^Examples:$/d' help > examples
    grep -q '^  .*rdmaput' examples || fail "no example of '$command'"
    while read -r example; do
      [ -n "$example" ] || continue
      [[ $example == *"rdmaput ${command}"* ]] || fail "no example of '$command': $example"
      for option in $(grep -oE -e '--[a-z][a-z-]*' <<< "${example%%|*}"); do
        grep -qE -e "^ .*$option(=| |$)" help || fail "$option is not in the help of '$command': $example"
      done
    done < examples
  done
}

@test "an unknown command or option is refused with 64" {
  refused 64 "'frobnicate'" frobnicate
  refused 64 frobnicate --frobnicate
  refused 64 frobnicate write --frobnicate a host
  refused 64 "'extra'" devices extra
  refused 64 "'checks' is no command" checks
}

# bats test_tags=fast
@test "the version is standard output" {
  run --separate-stderr rdmaput --version
  assert_equal "$status" 0
  assert_equal "$stderr" ''
  assert_regex "$output" '^rdmaput [0-9]+\.[0-9]+'
  run rdmaput write -V
  assert_equal "$status" 0
}

@test "output that cannot be written is status 74" {
  local arguments
  make_file a 10
  for arguments in --help --version 'serve --help' 'write -n a host'; do
    run --separate-stderr bash -c "'$RDMAPUT' $arguments > /dev/full"
    assert_equal "$status" 74
    assert_regex "$stderr" '^rdmaput: .*No space left on device'
  done
}

@test "options of later releases are refused with 64" {
  local option
  make_file a 10
  for option in --connections=2 --direct; do
    refused 64 "${option%%=*}" write "$option" a host
  done
}

# ---- segments -----------------------------------------------------------------------------------

# bats test_tags=fast
@test "a segment is a path, and an offset, a length and a place in the object" {
  make_file f 5000
  plan f
  assert_plan '0 5000 0 f'
  plan f@4K
  assert_plan '4096 904 0 f'
  plan f@-1K
  assert_plan '3976 1024 0 f'
  plan f@+512
  assert_plan '0 512 0 f'
  plan f@=1M
  assert_plan '0 5000 1048576 f'
  plan f@0x200+0x40=0x1000
  assert_plan '512 64 4096 f'
  plan f@-5000+5000=1KiB
  assert_plan '0 5000 1024 f'
  plan f@5000 f@+0 f@-0
  assert_plan '5000 0 0 f' '0 0 0 f' '5000 0 0 f'
}

@test "units are powers of 1024" {
  make_file f 1
  plan f@=3 f@=1K f@=2KiB f@=1M f@=2MiB f@=1G f@=2GiB f@=1T f@=2TiB
  assert_plan '0 1 3 f' '0 1 1024 f' '0 1 2048 f' '0 1 1048576 f' '0 1 2097152 f' \
    '0 1 1073741824 f' '0 1 2147483648 f' '0 1 1099511627776 f' '0 1 2199023255552 f'
}

@test "a segment without REMOTE follows the one before it, and the plan is in the object's order" {
  make_file a 100
  make_file b 10
  plan a b a@+5
  assert_plan '0 100 0 a' '0 10 100 b' '0 5 110 a'
  plan a@=1000 b b@=0 a@90
  assert_plan '0 10 0 b' '90 10 10 a' '0 100 1000 a' '0 10 1100 b'
  assert_equal "${lines[-1]}" "# offset, length, remote, path: 4 segments, 130 bytes, an object of 1110 bytes"
}

@test "an @ that no suffix follows belongs to the path" {
  make_file me@example 10
  make_file @ 3
  make_file a@12x 5
  plan me@example me@example@+2 ./@@ a@12x
  assert_plan '0 10 0 me@example' '0 2 10 me@example' '0 3 12 ./@' '0 5 15 a@12x'
}

@test "a malformed suffix is refused with 64, and the message says which part" {
  make_file f 5000
  local suffix
  for suffix in 12x 0x 0xg +x +-1 =-1 =x + = - -x 1+ 1.5 1Q 99999999999999999999 -16E 9T+9999999T 1=2=3 \
    1+2+3 +=5 -+5; do
    refused 64 'malformed segment' write -n "f@$suffix" host
  done
  refused 64 OFFSET write -n f@1x+2 host
  refused 64 LENGTH write -n f@1+2x host
  refused 64 REMOTE write -n f@1+2=3x host
  refused_with_hint 64 PATH write -n f@1x host
}

@test "KB is ambiguous" {
  make_file f 5000
  refused 64 ambiguous write -n f@1KB host
  refused 64 ambiguous write -n f@+1MB host
  refused 64 ambiguous write -n f@=1GB host
}

@test "an empty path is refused with 64" {
  refused 64 PATH write -n @12 host
  refused 64 PATH write -n '' host
  refused 64 PATH write -n @ host
}

# bats test_tags=fast
@test "past the end of a file, or before its start, is 66" {
  make_file f 5000
  refused 66 5000 write -n f@5001 host
  refused 66 5000 write -n f@+5001 host
  refused 66 5000 write -n f@4999+2 host
  refused 66 'before the start' write -n f@-5001 host
  refused 66 5000 write -n f@-10+11 host
}

@test "an object past 2^63 bytes is refused with 64" {
  make_file f 10
  refused 64 '2^63' write -n f@=9223372036854775807 host
  refused 64 '' write -n f@=9223372036854775808 host
  refused 64 '' write -n f@1+9223372036854775807 host
}

@test "segments that overlap in the object are refused with 64, and both are named" {
  make_file a 100
  make_file b 100
  refused 64 "'a'" write -n a b@=99 host
  [[ $stderr == *"b: overlaps"* ]] || fail "$stderr"
  refused 64 overlaps write -n a@=50 b@=0 host
  refused 64 overlaps write -n a a@=0 host
  plan a b@=100
  assert_equal "$status" 0
  plan a b@+0=50
  assert_equal "$status" 0
}

@test "an argument with a suffix that is also the name of a file is refused, and a@12@ is that file" {
  make_file a 20
  make_file a@12 30
  refused_with_hint 64 "'a@12@'" write -n a@12 host
  refused 64 ambiguous write -n ./a@12 host
  plan a@12@ a@12@5 a@13
  assert_plan '0 30 0 a@12' '5 25 30 a@12' '13 7 55 a'
  run rdmaput write -n --literal a@12 host
  assert_plan '0 30 0 a@12'
}

@test "a directory is 66, and the hint packs it" {
  mkdir d
  refused_with_hint 66 'tar c d' write -n d host
  refused 66 directory write -n . host
}

@test "a file that is missing or cannot be opened is 66 and named" {
  refused 66 'missing: cannot open: No such file' write -n missing host
  refused 66 'missing: cannot open: No such file' write -n missing@1+2 host
  make_file f 1
  refused 66 'f/x: cannot open: Not a directory' write -n f/x host
}

@test "a dash is standard input, alone and once" {
  make_file f 10
  run rdmaput write -n - host < f
  assert_plan '0 - 0 -'
  run rdmaput write -n -t host -- -@+5=3 < f
  assert_plan '0 5 3 -'
  refused_with_hint 64 "'./-'" write -n - - host
  refused 64 alone write -n - f host
  refused 64 alone write -n -t host -- f -@+1
  refused 64 OFFSET write -n -t host -- -@1
}

@test "a file named - is ./-" {
  make_file ./- 7
  plan ./- ./-@3
  assert_plan '0 7 0 ./-' '3 4 7 ./-'
}

@test "what cannot seek, or has size 0 yet content, is read from its start: LENGTH, and no OFFSET" {
  mkfifo fifo
  run rdmaput write -n /proc/version host
  assert_plan '0 - 0 /proc/version'
  run rdmaput write -n /proc/version@+5=9 host
  assert_plan '0 5 9 /proc/version'
  refused_with_hint 64 '/proc/version@+LENGTH' write -n /proc/version@1 host
  refused 64 OFFSET write -n /proc/version@-1 host
  refused 64 'named twice' write -n /proc/version@+1 /proc/version@+2 host
  start_process writer bash -c 'exec > fifo; exec sleep 60'
  plan fifo@+3
  assert_plan '0 3 0 fifo'
  refused 64 OFFSET write -n fifo@0 host
}

@test "an empty file is no stream" {
  : > empty
  plan empty
  assert_plan '0 0 0 empty'
  refused 66 empty write -n empty@+1 host
}

@test "nothing of known place follows a stream" {
  make_file f 10
  run rdmaput write -n /proc/version f host
  assert_plan '0 - 0 /proc/version' '0 10 - f'
  refused 64 'unknown length' write -n /proc/version f@=100000 host
  run rdmaput write -n f@=0 /proc/version@=50 host
  assert_plan '0 10 0 f' '0 - 50 /proc/version'
}

# ---- lists of segments --------------------------------------------------------------------------

@test "--segments-from reads segments from a file, before those named" {
  make_file a 10
  make_file b 20
  printf 'a@5\n\nb@=100' > list
  run rdmaput write -n --segments-from list host
  assert_plan '5 5 0 a' '0 20 100 b'
  run rdmaput write -n --segments-from=list a@+1 host
  assert_plan '5 5 0 a' '0 20 100 b' '0 1 120 a'
  run rdmaput write -n --segments-from list -t host a@+1
  assert_plan '5 5 0 a' '0 20 100 b' '0 1 120 a'
}

@test "--segments-from - reads them from standard input, which then is no segment" {
  make_file a 10
  run rdmaput write -n --segments-from - host < <(echo a@4)
  assert_plan '4 6 0 a'
  refused 64 alone write -n --segments-from - - -t host
  echo - > list
  run rdmaput write -n --segments-from list host < a
  assert_plan '0 - 0 -'
}

@test "-0 separates by NUL, and --literal takes each as a path" {
  local odd=$'a b\nc@7'
  make_file "$odd" 9
  make_file x 3
  run rdmaput write -n --segments-from - -0 host < <(printf 'x@1\0%s@2' "$odd")
  assert_equal "$status" 0
  assert_line --index 0 $'1\t2\t0\tx'
  assert_regex "${lines[-1]}" '2 segments, 9 bytes'
  run rdmaput write -n --segments-from - --null --literal host < <(printf 'x\0%s\0' "$odd")
  assert_equal "$status" 0
  assert_regex "${lines[-1]}" '2 segments, 12 bytes'
}

@test "lists that cannot be read, are empty or wrong are refused" {
  refused 66 'missing: ' write -n --segments-from missing host
  : > empty
  refused 64 'no segment' write -n --segments-from empty host
  refused 64 -- write -n -0 a host
  printf 'a\0b\0' > list
  refused 64 'NUL' write -n --segments-from list host
  printf 'empty@x\nempty@+x\n' > list
  refused 64 'empty@+x' write -n --segments-from list host
}

# ---- destinations -------------------------------------------------------------------------------

@test "-t names the destination, and every argument is then a segment" {
  make_file a 10
  run rdmaput write -n -t host:7475/name a
  assert_plan '0 10 0 a'
  run rdmaput write -n a --to '[fd00::1%eth0]:1' a@=20
  assert_plan '0 10 0 a' '0 10 20 a'
  refused 64 SEGMENT write -n -t host
}

@test "arguments that are missing are 64" {
  make_file a 10
  refused 64 due write
  refused 64 due write a
  refused 64 due post
  refused 64 due post a
}

# bats test_tags=fast
@test "the habits of scp, and IPv6 without brackets, are refused with the right spelling" {
  make_file a 10
  refused_with_hint 64 "'host/name'" write -n a host:name
  refused_with_hint 64 "'host/dir/name'" write -n a host:/dir/name
  refused_with_hint 64 "'host:7475/name'" write -n a host:7475:name
  refused_with_hint 64 "'host:7475/name'" write -n a user@host:7475/name
  refused_with_hint 64 "'host'" write -n a user@host
  refused_with_hint 64 "'[fd00::1]'" write -n a fd00::1
  refused_with_hint 64 "'[fe80::1%eth0]/name'" write -n a fe80::1%eth0/name
  refused_with_hint 64 "'10.0.0.1'" write -n a '[10.0.0.1]'
  refused_with_hint 64 host write -n a host:
}

@test "a last argument that is a file is refused, for DEST is due there" {
  make_file a 10
  make_file b 10
  refused 64 "'b'" write -n a b
  [[ $stderr == *'HOST[:PORT]'* ]] || fail "$stderr"
  run rdmaput write -n a -t b
  assert_equal "$status" 0
}

# ---- the names of objects -----------------------------------------------------------------------

# bats test_tags=fast
@test "with a DEST that ends in / each segment is an object, named after its file" {
  mkdir d
  make_file a 10
  make_file d/b 20
  run rdmaput write -n a d/b@5+2 host/
  assert_equal "$status" 0
  assert_line --index 0 $'0\t10\t0\ta'
  assert_line --index 1 '# a: offset, length, remote, path: 1 segments, 10 bytes, an object of 10 bytes'
  assert_line --index 2 $'5\t2\t0\td/b'
  assert_line --index 3 '# b: offset, length, remote, path: 1 segments, 2 bytes, an object of 2 bytes'
  run rdmaput write -n d/b '[fd00::1]:7475/x/y/'
  assert_equal "$status" 0
  assert_line --index 1 --partial '# x/y/b: '
}

@test "with a DEST that names an object the segments are one" {
  make_file a 10
  run rdmaput write -n a a host/x/y
  assert_equal "$status" 0
  assert_line --index 2 '# x/y: offset, length, remote, path: 2 segments, 20 bytes, an object of 20 bytes'
}

@test "of many objects those that cannot be opened are reported, and the others planned" {
  make_file a 10
  make_file b 10
  make_file c 10
  run --separate-stderr rdmaput write -n a missing c@11 b host/
  assert_equal "$status" 66
  assert_equal "$(grep -c '^#' <<< "$output")" 2
  assert_regex "$stderr" 'missing: cannot open'
  assert_regex "$stderr" 'c: too short'
}

@test "two segments that would become one object are refused with 64" {
  mkdir d
  make_file a 10
  make_file d/a 10
  make_file b 10
  refused 64 "two segments would become one object" write -n a b d/a host/
  refused 64 'x/a: ' write -n a@1+1 a@2+1 host/x/
}

@test "REMOTE, and standard input, are refused with 64 where each segment is an object of its own" {
  make_file a 10
  refused 64 REMOTE write -n a@=5 host/
  refused_with_hint 64 '/' write -n a@1=5 host/x/
  refused_with_hint 64 'HOST[:PORT]/NAME' write -n - host/
}

@test "a name that leads elsewhere, or is none, is refused with 64" {
  local name long
  make_file a 10
  for name in a//b a/./b a/../b ../b . .. $'a\nb' $'a/\x7f' .a.rdmaput-0123456789abcdef \
    d/.a.rdmaput-part-0123456789abcdef0123456789abcdef; do
    refused 64 'no object can be named' write -n a "host/$name"
  done
  refused 64 absolute write -n a host//b
  refused 64 "part '..'" write -n a host/../
  refused 64 'empty part' write -n a host/b//
  printf -v long '%0256d' 0
  refused 64 '255 bytes' write -n a "host/$long"
  printf -v long '%0250d/%0250d/%0250d/%0250d/%0250d' 0 0 0 0 0
  refused 64 'longer than 1024 bytes' write -n a "host/$long"
  run rdmaput write -n a 'host/ä ö/...'
  assert_equal "$status" 0
}

@test "a file that no object can be named after is refused with 64, where it is one of many" {
  make_file .a.rdmaput-0123456789abcdef 10
  make_file b 10
  refused 64 'hidden files' write -n b .a.rdmaput-0123456789abcdef host/
  refused 64 'no object can be named' write -n b ./ host/
}

# ---- options of write ---------------------------------------------------------------------------

# bats test_tags=fast
@test "options of write with a choice take no other, with 64" {
  local value
  make_file a 10
  for value in x '' Auto always; do
    refused 64 --sparse write -n "--sparse=$value" a host
    refused 64 --map write -n "--map=$value" a host
  done
  for value in x '' TCP ticket; do
    refused 64 --exchange write -n "--exchange=$value" a host
  done
  for value in auto never; do
    run rdmaput write -n "--sparse=$value" "--map=$value" a host
    assert_equal "$status" 0
  done
  run rdmaput write -n --exchange=message a host
  assert_equal "$status" 0
}

@test "--exchange-port is a port, and goes with --exchange=tcp" {
  local port
  make_file a 10
  for port in 0 65536 -1 x ''; do
    refused 64 --exchange-port write -n --exchange=tcp "--exchange-port=$port" a host
  done
  refused 64 --exchange=tcp write -n --exchange-port=7476 a host
  refused 64 --exchange=tcp write -n --exchange-port=7476 --exchange=message a host
  run rdmaput write -n --exchange-port=7476 --exchange=tcp a host
  assert_equal "$status" 0
}

@test "--resume and --preserve are refused with 64 for a pipe, and --preserve for several files" {
  make_file a 10
  make_file b 10
  refused 64 --resume write --resume - host
  refused 64 --preserve write --preserve /proc/version host
  refused 64 --preserve write --preserve a b host
  refused 64 --preserve write --preserve /dev/null host
}

@test "holes are kept apart in the plan, with --sparse=never not" {
  truncate -s 1M sparse
  printf x | dd of=sparse bs=1 seek=512K conv=notrunc status=none
  run rdmaput write -n --sparse=never sparse host
  assert_plan '0 1048576 0 sparse'
  run rdmaput write -n sparse host
  # Where the file system has none, there is none to be kept apart.
  if [ "$(stat -c %b sparse)" -ge 2048 ]; then
    assert_plan '0 1048576 0 sparse'
    return
  fi
  assert_equal "$status" 0
  assert_regex "${lines[-1]}" ' an object of 1048576 bytes'
  [[ ${lines[-1]} != *' 1048576 bytes, an object'* ]] || fail "all of it is to be sent: $output"
}

@test "ports are 1 to 65535" {
  make_file a 10
  local port
  for port in 0 65536 99999999999999999999; do
    refused 64 "$port" write -n a "host:$port"
    refused 64 "$port" write -n --port "$port" a host
  done
  refused 64 -1 write -n --port=-1 a host
  run rdmaput write -n a host:65535
  assert_equal "$status" 0
  refused 64 65536 serve --port 65536
}

@test "--bind takes a numeric address" {
  make_file a 10
  refused 64 eth0 write --bind eth0 a 10.0.0.1
  refused 64 eth0 serve --bind eth0 out
  refused 64 "'fe80::1%eth0'" serve --bind '[fe80::1]' out
  refused 64 '[::1' serve --bind '[::1' out
}

@test "times have units, and a timeout is at least 100ms" {
  make_file a 10
  local time
  for time in 99ms 0 '' x 1KB -1 5d; do
    refused 64 --timeout write -n --timeout "$time" a host
  done
  for time in 100ms 1 2.5s 1m 1h; do
    run rdmaput write -n --timeout "$time" a host
    assert_equal "$status" 0
  done
  refused 64 --wait write -n --wait soon a host
}

# ---- tickets ------------------------------------------------------------------------------------

@test "a ticket that is cut short is refused with 64, at every field" {
  make_file a 10
  local whole=rdmaput1,10.0.0.1,7475,0x7f0000000000,0x12,4096,00112233445566778899aabbccddeeff
  local cut=$whole
  while [[ $cut == *,* ]]; do
    cut=${cut%,*}
    refused_with_hint 64 'whole line' post a "$cut,"
    [[ $stderr == *'cut short'* ]] || fail "$stderr"
    # Without its token it is whole.
    case $cut in *,4096) continue ;; esac
    refused 64 'cut short' post a "$cut"
  done
  refused 64 'cut short' post a "${whole%?}"
}

@test "a ticket of another version is status 76" {
  make_file a 10
  refused_with_hint 76 'same version' post a rdmaput2,10.0.0.1,7475,0x7f0000000000,0x12,4096
  refused 76 version post a rdmaput10,what,ever
}

@test "a malformed ticket is refused with 64, and the field is named" {
  make_file a 10
  refused 64 ADDR post a rdmaput1,host,7475,0x7f00,0x12,4096
  refused 64 PORT post a rdmaput1,10.0.0.1,0,0x7f00,0x12,4096
  refused 64 PORT post a rdmaput1,10.0.0.1,65536,0x7f00,0x12,4096
  refused 64 REMOTE_ADDR post a rdmaput1,10.0.0.1,7475,7f00,0x12,4096
  refused 64 RKEY post a rdmaput1,10.0.0.1,7475,0x7f00,0x112345678,4096
  refused 64 LENGTH post a rdmaput1,10.0.0.1,7475,0x7f00,0x12,0
  refused 64 LENGTH post a rdmaput1,10.0.0.1,7475,0xffffffffffffff00,0x12,4096
  refused 64 TOKEN post a rdmaput1,10.0.0.1,7475,0x7f00,0x12,4096,00112233445566778899aabbccddeefg
  refused 64 fields post a rdmaput1,10.0.0.1,7475,0x7f00,0x12,4096,00112233445566778899aabbccddeeff,
}

@test "without a ticket, post wants --remote-addr and --rkey" {
  make_file a 10
  refused 64 --remote-addr post a host
  refused 64 --remote-addr post --remote-addr 0x1000 a host
  refused 64 --remote-addr post --rkey 1 a host
  refused 64 ticket post --rkey 1 a rdmaput1,10.0.0.1,7475,0x7f00,0x12,4096
  refused 64 --rkey post --remote-addr 1 --rkey 0x100000000 a host
  refused 64 NAME post --remote-addr 1 --rkey 1 a host/name
  refused 64 "'fast'" post --flags signaled,fast --remote-addr 1 --rkey 1 a host
  refused 64 --context post --context x --remote-addr 1 --rkey 1 a host
}

# ---- serve --------------------------------------------------------------------------------------

# bats test_tags=fast
@test "serve has one sink, and options go with theirs" {
  refused 64 exclude serve --region 1M out
  refused 64 exclude serve --discard out
  refused 64 exclude serve --region 1M --discard
  refused 64 "'two'" serve one two
  refused 64 --region serve --dump d out
  refused 64 --region serve --ticket t out
  refused 64 --bind serve --region 1M --ticket t
  refused 64 exclude serve --in-place a out
  refused 64 exclude serve --in-place a -
  refused 64 exclude serve --in-place a --region 1M
  refused 64 exclude serve --in-place a --discard
  refused 64 exclude serve --discard -
  refused 64 exclude serve --region 1M -
  refused 64 "'two'" serve - two
  refused 64 empty serve ''
  refused 64 empty serve --in-place ''
}

@test "options of serve go with the sinks that they are for" {
  refused 64 --sync serve --sync
  refused 64 --sync serve --sync --discard
  refused 64 --dump serve --sync --region 1M
  local sink
  for sink in '' --discard --region=1M --in-place=a -; do
    refused 64 --no-clobber serve --no-clobber ${sink:+"$sink"}
    refused 64 --keep-partial serve --keep-partial 1h ${sink:+"$sink"}
  done
  refused 64 --keep-partial serve --keep-partial soon out
  refused 64 --map serve --map=always out
  refused 64 --map serve --map= out
  for sink in 65536 -1 x ''; do
    refused 64 --exchange-port serve --exchange-port "$sink" out
  done
}

# bats test_tags=fast
@test "a place where nothing can be put is 73, before anything else" {
  mkdir d
  mkfifo fifo
  make_file a 10
  refused_with_hint 73 "must exist" serve missing/file
  refused_with_hint 73 writable serve missing/
  refused_with_hint 73 writable serve a/
  refused_with_hint 73 --in-place serve fifo
  refused_with_hint 73 'serve - >' serve /dev/null
  refused_with_hint 73 --no-clobber serve --no-clobber a
  refused_with_hint 73 truncate serve --in-place missing
  refused_with_hint 73 'serve DIR' serve --in-place d
  refused_with_hint 73 'serve - >' serve --in-place fifo
  refused_with_hint 73 'serve - >' serve --in-place /dev/null
}

@test "a standard output that cannot be written is no sink" {
  run --separate-stderr timeout 10 bash -c '"$1" serve - >&-' - "$RDMAPUT"
  assert_equal "$status" 74
  assert_regex "$stderr" 'standard output'
  make_file a 10
  run --separate-stderr timeout 10 bash -c '"$1" serve - 1< a' - "$RDMAPUT"
  assert_equal "$status" 74
  assert_regex "$stderr" 'standard output'
}

@test "serve refuses a region of nothing, or of an ambiguous size" {
  refused 64 'at least one byte' serve --region 0
  refused 64 ambiguous serve --region 1KB
  refused 64 --region serve --region 1x
}

@test "--allow is an address, a network without bits past its mask, or any" {
  local network
  for network in 10.0.0.1/24 10.0.0.0/33 10.0.0 host '' 10.0.0.0/ fd00::1/64 fd00::/129 10.0.0.0/-1 ANY; do
    refused 64 "'$network'" serve --allow "$network" out
  done
  refused 64 'its network is 10.0.0.0/22' serve --allow 10.0.3.5/22 out
  refused 64 'its network is fd00::/64' serve --allow fd00::1/64 out
}

# ---- no device ----------------------------------------------------------------------------------

# bats test_tags=fast
@test "without a device every command ends with 69 and says what is missing and what mends it" {
  if has_device; then skip "this system has an RDMA device"; fi
  make_file a 10
  refused_with_hint 69 '' devices
  assert_regex "$stderr" 'no RDMA device|cannot use'
  refused_with_hint 69 '' serve out
  assert_regex "$stderr" 'no RDMA device|cannot use'
  refused_with_hint 69 '' serve --region 1M --bind 10.0.0.1 --ticket t
  refused_with_hint 69 '' write a 10.0.0.1
  assert_regex "$stderr" 'no RDMA device|cannot use'
  refused_with_hint 69 '' post a rdmaput1,10.0.0.1,7475,0x7f00,0x12,4096
  assert_dir_holds . a
}

@test "closed standard streams fail as such, and nothing of the program's takes their place" {
  echo data > file
  run timeout 10 bash -c '"$1" write -n missing host 2>&-' - "$RDMAPUT"
  assert_equal "$status" 66
  run timeout 10 bash -c '"$1" write -n file host >&-' - "$RDMAPUT"
  assert_run 74 'Bad file descriptor'
  run timeout 10 bash -c '"$1" write -n file host <&-' - "$RDMAPUT"
  assert_equal "$status" 0
}

@test "a signal ends the wait for a pipe that somebody else has to open" {
  local arguments
  mkfifo -m 600 pipe
  echo data > file
  for arguments in 'devices --json-file pipe' 'serve --json-file pipe' 'serve --secret-file pipe' \
    'write --secret-file pipe file host' 'write --segments-from pipe host'; do
    # shellcheck disable=SC2086
    start_process waits "$RDMAPUT" $arguments
    wait_for waits_for_pipe
    kill -INT "$process_pid"
    wait_process "$process_pid"
    assert_equal "$process_status" 130
    [ ! -s "$process_err" ] || fail "$arguments: $(< "$process_err")"
  done
}
waits_for_pipe() { [[ $(< "/proc/$process_pid/stat") == *'(rdmaput) S '* ]]; }

@test "--once without a place to write to is a usage error, as it would never end" {
  run rdmaput serve --once
  assert_run 64 '--once'
}

@test "a directory with a '/' behind it is told as a directory, and the others go on" {
  mkdir dir
  echo a > a
  run --separate-stderr rdmaput write -n a dir/ 192.0.2.1/x/
  assert_equal "$status" 66
  [[ $stderr == *'dir/: is a directory'*'tar c dir/'* ]] || fail "$stderr"
  assert_output --partial $'\ta\n'
}

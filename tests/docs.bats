# docs.bats - README and man pages say what the program does, and their examples run as printed.
#
# An example is a block of README.md below a line "<!-- example: NAME -->", or a display of a man page
# below a line '.\" example: NAME'. It runs with sh -e in a directory of its own that holds disk.img,
# log and dir/, with ADDR set, and rdmaput and a stand-in for ssh to host2 on PATH.
# bats file_tags=siw
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

load lib/common

root=$BATS_TEST_DIRNAME/..

# COMMAND|'' - the path of its man page
page() { echo "$root/man/rdmaput${1:+-$1}.1"; }

# From a man page's text to what a reader sees
unescape() { sed -e 's/\\-/-/g' -e "s/\\\\(aq/'/g" -e 's/\\e/\\/g'; }

# FILE - prints the names of its examples
example_names() { sed -n -e 's/^<!-- example: \(.*\) -->$/\1/p' -e 's/^\.\\" example: //p' "$1"; }

# FILE NAME - prints the example
example() {
  case $1 in
    *.md) awk -v mark="<!-- example: $2 -->" '
      /^```/ && inside { exit }
      inside { print }
      $0 == mark { found = 1 }
      /^```sh$/ && found { inside = 1 }' "$1" ;;
    *) awk -v mark=".\\\\\" example: $2" '
      /^\.Ed$/ && inside { exit }
      inside { print }
      $0 == mark { found = 1 }
      /^\.Bd / && found { inside = 1 }' "$1" | unescape ;;
  esac
}

# Lets examples find the program, and an ssh to host2, which is a directory.
put_on_path() {
  mkdir "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/host2"
  ln -s "$(realpath "$RDMAPUT")" "$BATS_TEST_TMPDIR/bin/rdmaput"
  # shellcheck disable=SC2016 # for the other shell
  printf '%s\n' '#!/bin/sh' 'cd "${0%/*}/../$1" && shift && exec sh -c "$*"' > "$BATS_TEST_TMPDIR/bin/ssh"
  chmod +x "$BATS_TEST_TMPDIR/bin/ssh"
}

# FILE NAME - runs it; what it has started in the background ends with it
run_example() {
  local dir=$BATS_TEST_TMPDIR/$2
  mkdir -p "$dir/dir"
  make_file "$dir/disk.img" 2M
  make_file "$dir/log" 100000
  make_file "$dir/dir/a" 5000
  make_file "$dir/dir/b" 1
  {
    # shellcheck disable=SC2016 # for the other shell
    echo 'trap '\''kill $! 2> /dev/null || true'\'' EXIT'
    example "$1" "$2"
  } > "$dir/.example"
  (
    cd "$dir" || exit
    exec 3>&- 4>&- # bats would wait for what holds them
    ADDR=$addr PATH=$BATS_TEST_TMPDIR/bin:$PATH timeout -k 5 120 sh -e .example < /dev/null
  )
}

# FILE - runs all its examples, of which there is at least one
run_examples() {
  local name names=()
  need_device
  put_on_path
  mapfile -t names < <(example_names "$1")
  [ ${#names[@]} -gt 0 ] || fail "$1 has no example"
  for name in "${names[@]}"; do
    [ -n "$(example "$1" "$name")" ] || fail "example $name is empty"
    echo "# example $name"
    run run_example "$1" "$name"
    assert_success
    printf '%s\n' "$output"
  done
}

# bats test_tags=device
@test "the examples of README run as printed" { run_examples "$root/README.md"; }

# bats test_tags=device
@test "what README says that the ticket's example prints is what it prints" {
  need_device
  put_on_path
  awk '/^```/ && inside { exit } inside { print } /^```text$/ { inside = 1 }' "$root/README.md" > expected
  [ -s expected ]
  run_example "$root/README.md" ticket > printed
  diff expected printed
}

# bats test_tags=device
@test "the examples of rdmaput(1) run as printed" { run_examples "$(page)"; }

# bats test_tags=device
@test "the examples of rdmaput-serve(1) run as printed" { run_examples "$(page serve)"; }

# bats test_tags=device
@test "the examples of rdmaput-write(1) run as printed" { run_examples "$(page write)"; }

# bats test_tags=device
@test "the examples of rdmaput-post(1) run as printed" { run_examples "$(page post)"; }

# bats test_tags=device
@test "the examples of rdmaput-check(1) run as printed" { run_examples "$(page check)"; }

# bats test_tags=device
@test "the examples of rdmaput-devices(1) run as printed" { run_examples "$(page devices)"; }

# bats test_tags=device
@test "the examples of rdmaput-json(5) run as printed" {
  need_command jq
  run_examples "$root/man/rdmaput-json.5"
}

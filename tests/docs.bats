# docs.bats - README and man pages say what the program does, and their examples run as printed.
#
# An example is a block of README.md below a line "<!-- example: NAME -->", or a display of a man page
# below a line '.\" example: NAME'. It runs with sh -e in a directory of its own that holds disk.img,
# log and dir/, with ADDR set and rdmaput on PATH.
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

load lib/common

root=$BATS_TEST_DIRNAME/..
commands=(serve write post devices)

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

# Lets examples find the program.
put_on_path() {
  mkdir "$BATS_TEST_TMPDIR/bin"
  ln -s "$(realpath "$RDMAPUT")" "$BATS_TEST_TMPDIR/bin/rdmaput"
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

# COMMAND|'' - prints the options that its --help lists, "-x" and "--word", each once
help_options() {
  # The column of texts may name options of other commands.
  rdmaput ${1:+"$1"} --help | cut -c -28 | grep -E '^ +-' | grep -Eo -e '(^|[ ,])-[0-9A-Za-z?](,|=| |$)' -e '--[a-z][a-z-]*' |
    sed -e 's/^[ ,]*//' -e 's/[,= ]*$//' | sort -u
}

# PAGE - prints the options that it has an entry for
page_options() {
  grep '^\.It Fl' "$1" | sed -e 's/\\&//g' | grep -Eo 'Fl [-0-9A-Za-z?][-a-z]*' | sed 's/Fl /-/' | sort -u
}

# bats test_tags=fast
@test "a man page has an entry for each option of its command, and for no other" {
  local command
  for command in '' "${commands[@]}"; do
    help_options "$command" > in-help
    page_options "$(page "$command")" > in-page
    [ "$(wc -l < in-help)" -ge 4 ] || fail "too few options in the help of '$command': $(< in-help)"
    diff in-help in-page || fail "rdmaput $command --help (<) and its page (>) differ"
  done
}

# bats test_tags=fast
@test "what the man pages and README call an option of rdmaput is one" {
  local command option
  for command in '' "${commands[@]}"; do
    help_options "$command"
  done | sort -u > known
  {
    unescape < "$root/README.md" | grep -E 'rdmaput (serve|write|post|devices)|`--' |
      grep -Eo -e '--[a-z][a-z-]*'
    for command in '' "${commands[@]}"; do
      grep -Eo 'Fl -[a-z][a-z-]*' "$(page "$command")" | sed 's/Fl /-/'
      sed '/^\.\\"/d' "$(page "$command")" | unescape | grep -E '^ *rdmaput ' | grep -Eo -e ' --[a-z][a-z-]*' | tr -d ' '
    done
  } | sort -u > named
  # Options of configure and the scripts, which README names.
  for option in --enable-werror --enable-sanitizers --enable-tsan --help; do
    sed -i "/^$option\$/d" named
  done
  run comm -13 known named
  assert_output ''
}

# bats test_tags=fast
@test "README and man pages name each command" {
  local command
  for command in "${commands[@]}"; do
    assert_file_contains "$root/README.md" "rdmaput $command"
    assert_file_contains "$(page)" "^\.It Xr rdmaput-$command 1"
    rdmaput --help | grep -q "^  $command " || fail "rdmaput --help does not list $command"
  done
}

# bats test_tags=fast
@test "each man page has its sections, and lint finds nothing in it" {
  local command section
  for command in '' "${commands[@]}"; do
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
      grep -qx "\.Sh $section" "$(page "$command")" || fail "$(page "$command") has no $section"
    done
  done
  if ! command -v mandoc > /dev/null; then
    [ "${RDMAPUT_TEST_REQUIRE-}" != 1 ] || fail "no mandoc, and RDMAPUT_TEST_REQUIRE is set"
    skip "no mandoc"
  fi
  for command in '' "${commands[@]}"; do
    run mandoc -T lint -W warning "$(page "$command")"
    assert_success
    assert_output ''
  done
}

# bats test_tags=fast
@test "README names scripts/try and scripts/test, and README is README.md" {
  assert_file_contains "$root/README.md" 'scripts/try'
  assert_file_contains "$root/README.md" 'scripts/test'
  cmp "$root/README" "$root/README.md"
}

# bats test_tags=fast
@test "each script explains itself" {
  local script
  for script in "$root"/scripts/*; do
    [ -f "$script" ] && [ -x "$script" ] || continue
    run timeout 20 "$script" --help
    assert_success
    assert_output --regexp "usage: ${script##*/}"
  done
}

# bats test_tags=fast
@test "files that README and HACKING name are there" {
  local file
  while read -r file; do
    case $file in *NAME*) continue ;; esac
    [ -e "$root/$file" ] || fail "there is no $file"
  done < <(grep -Eho '\b(scripts|src|tests|man)/[A-Za-z0-9./-]*[A-Za-z0-9]' "$root/README.md" "$root/HACKING.md" | sort -u)
}

# bats test_tags=fast
@test "HACKING has a place for each source file, and for no other" {
  (cd "$root/src" && printf '%s\n' *.c) | sort > there
  grep '^|' "$root/HACKING.md" | grep -Eo '[a-z-]+\.c\b' | sort > placed
  diff there placed
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
@test "the examples of rdmaput-devices(1) run as printed" { run_examples "$(page devices)"; }

# pages.bats - README, HACKING and man pages name what is there, and nothing else.
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

load lib/common

root=$BATS_TEST_DIRNAME/..
commands=(serve write post check devices)

# COMMAND|'' - the path of its man page
page() { echo "$root/man/rdmaput${1:+-$1}.1"; }

# From a man page's text to what a reader sees
unescape() { sed -e 's/\\-/-/g' -e "s/\\\\(aq/'/g" -e 's/\\e/\\/g'; }

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
    unescape < "$root/README.md" | grep -E 'rdmaput (serve|write|post|check|devices)|`--' |
      grep -Eo -e '--[a-z][a-z-]*'
    for command in '' "${commands[@]}"; do
      grep -Eo 'Fl -[a-z][a-z-]*' "$(page "$command")" | sed 's/Fl /-/'
      sed '/^\.\\"/d' "$(page "$command")" | unescape | grep -E '^ *rdmaput ' | grep -Eo -e ' --[a-z][a-z-]*' | tr -d ' '
    done
  } | sort -u > named
  # Options of configure and the scripts, which README names.
  for option in --enable-werror --enable-sanitizers --enable-tsan --with-bash-completion-dir --with-zsh-completion-dir --help; do
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
  need_command mandoc
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
  grep '^|' "$root/HACKING.md" | grep -Eo '[a-z0-9-]+\.c\b' | sort > placed
  diff there placed
}

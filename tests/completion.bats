# completion.bats - what bash and zsh offer when a command line of rdmaput is completed: what its help has.
# shellcheck disable=SC2016,SC2154 # for other shells; lib/common.bash and bats set what is used here

load lib/common

root=$BATS_TEST_DIRNAME/..

setup() {
  common_setup
  mkdir home home/.ssh empty
  printf '%s ssh-ed25519 AAAA\n' alpha.example beta.example,10.0.0.2 > home/.ssh/known_hosts
  touch disk.img 'data file' empty/inside
  mkdir directory
  export HOME=$PWD/home
}

need_bash_completion() {
  bash_completion=/usr/share/bash-completion/bash_completion
  [ -e $bash_completion ] || lack 'no bash-completion'
}

# WORD... - what bash offers for the last of them, a line each, in order; the program stands before them
offered_by_bash() {
  bash --norc -c '
    if [ -n "$1" ]; then source "$1"; fi
    source "$2" || exit
    shift 2
    COMP_LINE=$* COMP_POINT=${#COMP_LINE} COMP_WORDS=()
    for word; do # as readline takes them apart
      while [[ $word =~ ^([^=:]*)([=:]+)(.*)$ ]]; do
        [ -z "${BASH_REMATCH[1]}" ] || COMP_WORDS+=("${BASH_REMATCH[1]}")
        COMP_WORDS+=("${BASH_REMATCH[2]}")
        word=${BASH_REMATCH[3]} split=yes
      done
      if [ -n "$word" ] || [ -z "${split-}" ]; then COMP_WORDS+=("$word"); fi
      split=
    done
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    $(complete -p rdmaput | sed "s/.*-F \([^ ]*\) .*/\1/") "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    [ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}" | sort -u' \
    - "${bash_completion-}" "$root/completion/bash/rdmaput" "$RDMAPUT" "$@"
}

# The same of zsh, on a terminal.
offered_by_zsh() {
  local line
  mkdir -p home/zsh
  cp "$BATS_TEST_DIRNAME/lib/completions.zsh" home/zsh/.zshrc
  printf -v line '%q ' "$RDMAPUT" "${@:1:$#-1}"
  : > offered
  LINE=$line${*: -1} OFFERED=$PWD/offered FUNCTIONS=$root/completion/zsh ZDOTDIR=$PWD/home/zsh TERM=dumb \
    timeout 20 script -qec 'zsh -d -i' /dev/null < /dev/null > terminal
  sort -u offered
}

# SHELL WORD... '=>' OFFER... - it offers just these for the last of the words
assert_offers() {
  local shell=$1 words=() offered
  shift
  while [ "$1" != "=>" ]; do words+=("$1") && shift; done
  shift
  offered=$("offered_by_$shell" "${words[@]}")
  assert_equal "$offered" "$(if [ $# -gt 0 ]; then printf '%s\n' "$@" | sort -u; fi)"
}

commands_in_help() { "$RDMAPUT" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'; }

# COMMAND|'' - the options that its help lists, "-x" and "--word"
options_in_help() {
  "$RDMAPUT" ${1:+"$1"} --help | cut -c -28 | grep -E '^ {2,6}-' |
    grep -Eo -e '(^|[ ,])-[0-9A-Za-z?](,|=| |$)' -e '--[a-z][a-z-]*' | sed -e 's/^[ ,]*//' -e 's/[,= ]*$//'
}

# SHELL - what completion is to be like
assert_completes() {
  local shell=$1 command options
  mapfile -t commands < <(commands_in_help)
  [ ${#commands[@]} -ge 4 ]
  assert_offers "$shell" '' '=>' "${commands[@]}"
  assert_offers "$shell" wr '=>' write
  for command in '' "${commands[@]}"; do
    mapfile -t options < <(options_in_help "$command")
    [ ${#options[@]} -ge 4 ]
    assert_offers "$shell" ${command:+"$command"} - '=>' "${options[@]}"
  done
  assert_offers "$shell" write --sy '=>' --sync
  assert_offers "$shell" write --frobnicate '=>'
}

# ---- bash ---------------------------------------------------------------------------------------

# bats test_tags=fast
@test "bash offers the commands and options that the program's help has" {
  need_bash_completion
  assert_completes bash
  assert_offers bash write --map '=>' --map=
  assert_offers bash write --map=a '=>' auto
  assert_offers bash write --map= '=>' auto never
  assert_offers bash write --map '' '=>' auto never
  assert_offers bash write --progress=al '=>' always
  assert_offers bash check --format= '=>' human json tap junit
  assert_offers bash --trace wr '=>' write
}

# bats test_tags=fast
@test "bash offers files and known hosts where they are due" {
  need_bash_completion
  assert_offers bash write d '=>' 'data file' directory disk.img
  assert_offers bash write disk.img a '=>' alpha.example
  assert_offers bash write disk.img b '=>' beta.example
  assert_offers bash write -t a '=>' alpha.example
  assert_offers bash write --to=a '=>' alpha.example
  assert_offers bash write --secret-file=di '=>' directory disk.img
  assert_offers bash write --secret-file di '=>' directory disk.img
  assert_offers bash write --timeout '' '=>'
  assert_offers bash write -- --s '=>'
  assert_offers bash serve di '=>' directory disk.img
  assert_offers bash serve a '=>'
  assert_offers bash devices '' '=>'
}

# SHELL - it offers the addresses of devices for --bind
assert_offers_addresses() {
  local addresses
  use_fake_fabric roce
  mapfile -t addresses < <("$RDMAPUT" devices | sed -n 's/^ *address  *//p')
  [ ${#addresses[@]} -gt 0 ]
  assert_offers "$1" write --bind "${addresses[0]%?}" '=>' "${addresses[0]}"
}

# bats test_tags=fast
@test "bash offers addresses of devices for --bind" {
  need_bash_completion
  assert_offers_addresses bash
}

# bats test_tags=fast
@test "bash offers hosts of IPv6 as rdmaput takes them" {
  need_bash_completion
  echo 'fd00::7 ssh-ed25519 AAAA' >> home/.ssh/known_hosts
  assert_offers bash write disk.img fd '=>'
  assert_offers bash write disk.img '[fd' '=>' '[fd00::7]'
  assert_offers bash write disk.img 'joe@[' '=>' 'joe@[fd00::7]'
  assert_offers bash write disk.img joe@a '=>' joe@alpha.example
}

# bats test_tags=fast
@test "bash completes without bash-completion, too" {
  bash_completion=''
  assert_completes bash
  assert_offers bash serve di '=>' directory disk.img
  assert_offers bash write --map= '=>' auto never
  assert_offers bash write --map=a '=>' auto
  assert_offers bash write --map a '=>' auto
}

# bats test_tags=fast
@test "bash offers what stands behind the breaks that readline makes of '=', ':' and '@', once" {
  touch k=v x:y p@q
  for bash_completion in '' /usr/share/bash-completion/bash_completion; do
    [ -z "$bash_completion" ] || need_bash_completion
    assert_offers bash serve k '=>' k=v
    assert_offers bash serve k= '=>' v
    assert_offers bash serve --dump=k= '=>' v
    assert_offers bash serve --dump k= '=>' v
    assert_offers bash serve x: '=>' y
    if [ -n "$bash_completion" ]; then assert_offers bash serve p@ '=>' p@q; else assert_offers bash serve p@ '=>' @q; fi
  done
}

# ---- zsh ----------------------------------------------------------------------------------------

# bats test_tags=fast
@test "zsh offers the commands and options that the program's help has" {
  need_command zsh
  assert_completes zsh
  assert_offers zsh write --map=a '=>' auto
  assert_offers zsh write --map '' '=>' auto never
  assert_offers zsh write --progress=al '=>' always
}

# bats test_tags=fast
@test "zsh offers files and known hosts where they are due" {
  need_command zsh
  assert_offers zsh write d '=>' 'data file' directory disk.img
  assert_offers zsh write disk.img a '=>' alpha.example
  assert_offers zsh write -e ssh disk.img joe@a '=>' alpha.example
  assert_offers zsh write -t a '=>' alpha.example
  assert_offers zsh write --secret-file=di '=>' directory disk.img
  assert_offers zsh serve di '=>' directory disk.img
  assert_offers zsh devices '' '=>'
}

# bats test_tags=fast
@test "zsh offers addresses of devices for --bind" {
  need_command zsh
  assert_offers_addresses zsh
}

# ---- installed ----------------------------------------------------------------------------------

# bats test_tags=fast
@test "make install puts completion, pages and the schema where they are looked for" {
  [ -e "$RDMAPUT_BUILD/Makefile" ] || lack 'the program was not built in RDMAPUT_BUILD'
  need_command make
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$RDMAPUT_BUILD" install DESTDIR="$PWD/root" prefix=/usr > /dev/null
  assert_file_executable root/usr/bin/rdmaput
  cmp "$root/completion/bash/rdmaput" root/usr/share/bash-completion/completions/rdmaput
  cmp "$root/completion/zsh/_rdmaput" root/usr/share/zsh/site-functions/_rdmaput
  cmp "$root/share/rdmaput.schema.json" root/usr/share/rdmaput/rdmaput.schema.json
  assert_file_exists root/usr/share/man/man1/rdmaput-write.1
  assert_file_exists root/usr/share/man/man5/rdmaput-json.5
}

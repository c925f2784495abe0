# soak.bats - random transfers with random faults, for a while. scripts/soak runs it for longer.
#
# RDMAPUT_SOAK_SEED     what is chosen follows from it (1); when a fault comes does not
# RDMAPUT_SOAK_SECONDS  how long (20)
# shellcheck disable=SC2034,SC2154 # variables of lib/common.bash
load lib/common

MOST=3000000 # bytes of an object

setup() {
  common_setup
  need_device
  mkdir out want
  (umask 077 && head -c 32 /dev/urandom | base64 > secret)
  export RDMAPUT_SECRET_FILE=$PWD/secret
  SECONDS=0
}

# N - chosen: a number below N
choose() { chosen=$(((RANDOM << 15 | RANDOM) % $1)); }

# WORD... - picked: one of them
pick() {
  choose $#
  shift $chosen
  picked=$1
}

# Sets segment, and adds what it is to want/NAME: some bytes of source
add_segment() {
  local offset length
  choose 1000000
  offset=$chosen
  choose $((MOST / 3))
  length=$chosen
  segment=source@$offset+$length
  tail -c +$((offset + 1)) source | head -c $length >> "want/$1"
}

# ---- what a client does: sets command, and the names of what it writes ------------------------------------

client_single() {
  names=(x)
  add_segment x
  command=(write "${options[@]}" "$segment" "$dest/x")
}

client_segments() {
  local parts=()
  names=(y)
  for _ in 1 2 3; do
    add_segment y
    parts+=("$segment")
  done
  command=(write "${options[@]}" "${parts[@]}" "$dest/y")
}

client_gaps() {
  names=(z)
  add_segment z
  local first=$segment end=$MOST
  truncate -s $end want/z
  add_segment z
  command=(write "$first" "$segment=$end" "$dest/z")
}

client_many() {
  local name
  names=(d/1 d/2 d/3)
  mkdir -p want/d
  for name in 1 2 3; do
    choose 200000
    head -c $chosen source > $name
    cp $name want/d/$name
  done
  command=(write "${options[@]}" --literal 1 2 3 "$dest/d/")
}

client_pipe() {
  names=(p)
  choose $MOST
  head -c $chosen source > want/p
  input=want/p
  command=(write - "$dest/p")
}

# ---- what happens meanwhile ---------------------------------------------------------------------------------

fault_none() { :; }
# Whatever it is, it may come too late.
signal_client() { kill "-$1" "$client" 2> /dev/null || true; }
fault_client-KILL() { signal_client KILL; }
fault_client-INT() { signal_client INT; }
fault_client-stops() {
  signal_client STOP
  nap 4
  signal_client CONT
}
fault_server-pauses() {
  kill -STOP "$server_pid"
  nap 0.5
  kill -CONT "$server_pid"
}
fault_server-KILL() {
  kill -KILL "$server_pid"
  wait_server
  start_server --port "$port" "${serving[@]}"
}
fault_server-restarts() {
  kill -TERM "$server_pid"
  kill -TERM "$server_pid" 2> /dev/null || true
  wait_server
  start_server --port "$port" "${serving[@]}"
}

# ---- rounds -----------------------------------------------------------------------------------------------

# NAME - whether out/NAME is what it was before the round, or is as absent
is_old() {
  if [ -e "old/$1" ]; then cmp -s "old/$1" "out/$1"; else [ ! -e "out/$1" ]; fi
}

# STATUS - of the client, after a fault
assert_may_fail_so() {
  case $fault:$1 in
    *:0 | client-KILL:137 | client-INT:130 | client-stops:75 | server-*:75 | server-*:69) ;;
    *) fail "$what: status $1: $(< "$client_err")" ;;
  esac
}

round() {
  local client client_err name options=() fault what input=/dev/null
  pick single segments gaps many pipe
  what=$picked
  pick '' '' --resume --sync --map=never --sparse=never
  options=(${picked:+"$picked"})
  pick none none none client-KILL client-INT client-stops server-pauses server-KILL server-restarts
  fault=$picked
  rm -rf want old
  mkdir want
  cp -r out old
  "client_$what"
  what="round $rounds: $what ${options[*]}, $fault"
  start_process "client$rounds" "$RDMAPUT" "${command[0]}" --timeout 3s "${command[@]:1}"
  client=$process_pid client_err=$process_err
  choose $((fabric_threads > 0 ? 40 : 400))
  if [ "$fault" != none ]; then
    nap "0.$(printf %03d $chosen)"
    "fault_$fault"
  fi
  wait_process "$client" 20
  assert_may_fail_so "$process_status"
  for name in "${names[@]}"; do
    if [ "$process_status" -eq 0 ]; then
      cmp "want/$name" "out/$name" || fail "$what: out/$name is not what was sent"
    else
      cmp -s "want/$name" "out/$name" || is_old "$name" || fail "$what: out/$name is neither old nor new"
    fi
  done
  outcomes[process_status]=$((${outcomes[process_status]-0} + 1))
}

@test "random transfers with random faults: all of it equal, or as it was, and nothing left" {
  local seconds=${RDMAPUT_SOAK_SECONDS:-20} rounds=0 outcomes=() status serving before
  RANDOM=${RDMAPUT_SOAK_SEED:-1}
  make_file source $((MOST + 1000000))
  serving=(--timeout 3s --secret-file "$PWD/secret" out)
  start_server "${serving[@]}"
  while [ $SECONDS -lt "$seconds" ]; do
    rounds=$((rounds + 1))
    round
  done
  stop_server
  start_server "${serving[@]}"
  read_server
  before=${#files[@]}
  rdmaput write source "$dest/last"
  assert_same source out/last
  wait_for is_idle "$threads"
  assert_equal "${#files[@]} $pinned" "$before 0"
  wait_for is_swept
  stop_server
  for status in "${!outcomes[@]}"; do echo "# status $status: ${outcomes[status]} times" >&3; done
  [ "${outcomes[0]-0}" -gt 0 ]
}
is_swept() { [ -z "$(find out -name '.*.rdmaput-*' ! -name '.*.rdmaput-part-*')" ]; }

# What `rdmaput devices` says, compared with what the kernel and libibverbs say.
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

# bats file_tags=device
load lib/common

setup_file() {
  "$RDMAPUT" devices > "$BATS_FILE_TMPDIR/devices" 2> /dev/null || true
  ibv_devinfo -v > "$BATS_FILE_TMPDIR/devinfo" 2> /dev/null || true
}

# Fields of the device behind $addr, by name, into the array field; the device's name into device.
read_fields() {
  local key value current mine=''
  declare -gA field=()
  while IFS= read -r line; do
    case $line in
      [!\ ]*)
        [ -z "$mine" ] || break
        field=() current=$line ;;
      *)
        key=${line:4:12} key=${key%%  *} key=${key% } value=${line:17}
        if [ "$key" = address ]; then
          field[addresses]+=" $value"
          if [ "$value" = "$addr" ]; then mine=yes; fi
        else
          field[$key]=$value
        fi ;;
    esac
  done < "$BATS_FILE_TMPDIR/devices"
  [ -n "$mine" ] || fail "no device with the address $addr"
  device=${current%% port *} port_number=${current##* port }
}

# NAME - what ibv_devinfo gives for it first, of the device, into value
devinfo() {
  local key rest current=''
  value=''
  while read -r key rest; do
    case $key in
      hca_id:) current=$rest ;;
      "$1:") if [ "$current" = "$device" ]; then value=${rest%% *}; return; fi ;;
    esac
  done < "$BATS_FILE_TMPDIR/devinfo"
  fail "ibv_devinfo gives no $1 of $device"
}

setup() {
  common_setup
  need_device
}

# bats test_tags=fast
@test "each device and port is listed, on standard output" {
  local path
  run --separate-stderr rdmaput devices
  assert_equal "$status" 0
  assert_equal "$stderr" ''
  for path in /sys/class/infiniband/*/ports/*; do
    path=${path#/sys/class/infiniband/}
    assert_line "${path%%/*} port ${path##*/}"
  done
}

@test "kind, state, link layer, active MTU and netdev are the kernel's" {
  local sysfs kind=InfiniBand
  read_fields
  sysfs=/sys/class/infiniband/$device/ports/$port_number
  if grep -q RNIC "/sys/class/infiniband/$device/node_type"; then
    kind=iWARP
  elif grep -q Ethernet "$sysfs/link_layer"; then
    kind=RoCE
  fi
  assert_equal "${field[kind]}" "$kind"
  assert_equal "${field[link layer]}" "$(< "$sysfs/link_layer")"
  assert_regex "$(< "$sysfs/state")" ": ${field[state]^^}"
  devinfo active_mtu
  assert_equal "${field[active MTU]}" "$value"
  assert_equal "${field[netdev]}" "$(ip -o address show to "$addr" | awk '!n++ { print $2 }')"
}

@test "the addresses of the netdev reach the device" {
  local address wanted=' '
  read_fields
  while read -r _ _ _ address _; do
    address=${address%/*}
    case $address in fe80:*) address+=%${field[netdev]} ;; esac
    wanted+="$address "
  done < <(ip -o address show dev "${field[netdev]}")
  assert_equal "$(tr ' ' '\n' <<< "${field[addresses]}" | sort)" "$(tr ' ' '\n' <<< "${wanted% }" | sort)"
}

@test "limits are those of libibverbs" {
  local gids bytes limit
  read_fields
  for limit in max_sge max_qp_wr; do
    devinfo $limit
    assert_equal "${field[$limit]}" "$value"
  done
  bytes=${field[max_msg_sz]%% *}
  devinfo max_msg_sz
  assert_equal "$bytes" "$((value))"
  gids=$(cat "/sys/class/infiniband/$device/ports/$port_number/gids/"* | grep -vc '^0000:0000:0000:0000:0000:0000:0000:0000$')
  assert_equal "${field[GIDs]}" "$gids"
  # The size is also told in units.
  assert_regex "${field[max_msg_sz]}" '^[0-9]+ \([0-9.]+ [KMGT]?i?B\)$'
}

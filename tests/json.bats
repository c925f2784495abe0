# json.bats - what --json and --json-file tell, and what share/rdmaput.schema.json and rdmaput-json(5) say of
# it. All on the fake fabric. Besides, lib/common.bash holds what every test's processes tell against the schema.
# shellcheck disable=SC2016,SC2034,SC2154 # for jq; lib/common.bash and bats set what is used here

load lib/common

lib=$BATS_TEST_DIRNAME/lib
schema=$BATS_TEST_DIRNAME/../share/rdmaput.schema.json
page=$BATS_TEST_DIRNAME/../man/rdmaput-json.5
commands=(write post serve check devices)

setup() {
  common_setup
  need_command jq
}

# JQ-ARG... - jq with what schema.jq defines, and $schema[0]
with_schema() { jq -L "$lib" --slurpfile schema "$schema" "$@"; }

# SCHEMA DOCUMENT [FAULT] - the one fault that DOCUMENT has is FAULT; without that it has none
assert_fault() {
  run jq -rn -L "$lib" --argjson schema "$1" --argjson document "$2" \
    'include "schema"; $document | faults($schema)'
  assert_success
  assert_output "${3-}"
}

# ---- the validator ----------------------------------------------------------------------------

# bats test_tags=fast
@test "schema.jq finds what a document must not have, and nothing else" {
  assert_fault '{"type": "integer"}' 5
  assert_fault '{"type": "integer"}' 5.5 ': 5.5 is no integer'
  assert_fault '{"type": "integer"}' '"5"' ': "5" is no integer'
  assert_fault '{"type": "null"}' null
  assert_fault '{"type": "null"}' false ': false is no null'
  assert_fault '{"type": "boolean"}' 0 ': 0 is no boolean'
  assert_fault '{"type": "string"}' null ': null is no string'
  assert_fault '{"type": "array"}' '{}' ': {} is no array'
  assert_fault '{"type": "object"}' '[]' ': [] is no object'
  assert_fault '{"const": 1}' 1
  assert_fault '{"const": 1}' '"1"' ': "1" is not 1'
  assert_fault '{"enum": ["a", "b"]}' '"b"'
  assert_fault '{"enum": ["a", "b"]}' '"ab"' ': "ab" is none of ["a","b"]'
  assert_fault '{"pattern": "^[0-9]$"}' '"1"'
  assert_fault '{"pattern": "^[0-9]$"}' '"11"' ': "11" does not match ^[0-9]$'
  assert_fault '{"pattern": "^[0-9]$"}' 11
  assert_fault '{"minimum": 3, "maximum": 4}' 3
  assert_fault '{"minimum": 3, "maximum": 4}' 4
  assert_fault '{"minimum": 3, "maximum": 4}' 2 ': 2 is less than 3'
  assert_fault '{"minimum": 3, "maximum": 4}' 5 ': 5 is more than 4'
  assert_fault '{"required": ["a"]}' '{"a": null}'
  assert_fault '{"required": ["a"]}' '{"b": 1}' ': there is no a'
  assert_fault '{"properties": {"a": {"type": "string"}}}' '{"b": 1}'
  assert_fault '{"properties": {"a": {"type": "string"}}}' '{"a": 1}' '.a: 1 is no string'
  assert_fault '{"items": {"type": "string"}}' '[]'
  assert_fault '{"items": {"type": "string"}}' '["a", 1]' '[1]: 1 is no string'
  local tree='{"$defs": {"node": {"properties": {"on": {"$ref": "#/$defs/node"}, "n": {"minimum": 0}}}}, "$ref": "#/$defs/node"}'
  assert_fault "$tree" '{"on": {"on": {"n": 0}}}'
  assert_fault "$tree" '{"on": {"on": {"n": -1}}}' '.on.on.n: -1 is less than 0'
  assert_fault '{"allOf": [{"minimum": 0}, {"maximum": 9}]}' 9
  assert_fault '{"allOf": [{"minimum": 0}, {"maximum": 9}]}' 10 ': 10 is more than 9'
  assert_fault '{"anyOf": [{"type": "null"}, {"minimum": 5}]}' null
  assert_fault '{"anyOf": [{"type": "null"}, {"minimum": 5}]}' 6
  assert_fault '{"anyOf": [{"type": "null"}, {"minimum": 5}]}' 4 ': of several, none fits: : 4 is no null; : 4 is less than 5'
  local choice='{"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}'
  assert_fault "$choice" '{"a": 1, "b": 1}'
  assert_fault "$choice" '{"a": 1, "c": 1}' ': there is no b'
  assert_fault "$choice" '{"c": 1}'
  assert_fault "$choice" '{"b": 1}' ': there is no c'
  assert_fault '{"if": {"type": "null"}, "then": {"const": null}}' 5
}

# bats test_tags=fast
@test "schema.jq refuses a schema with a keyword or reference that it does not know" {
  local wrong
  for wrong in '{"maxLength": 3}' '{"$ref": "#/$defs/nothing"}'; do
    run jq -n -L "$lib" --argjson schema "$wrong" 'include "schema"; "text" | [faults($schema)]'
    assert_failure
  done
}

# A document of each command that is as it should be.
write_samples() {
  local connection='"connection": {}, "times": {"resolve_ns": 0, "connect_ns": 1, "register_ns": 0, "transfer_ns": 0, "commit_ns": 0}'
  local head='"version": 1, "program": "rdmaput 0.1.0", "time": "2026-11-30T20:11:14.123Z", "process": {"user_ns": 1, "system_ns": 0, "resident_bytes": 1}'
  cat > samples << END
{$head, "command": "write", "exit_status": 0, "error": null,
 "destination": "h", "segments": 1, "objects_due": 1, "objects_committed": 1, "attempts": 1, "bytes": 5, "duration_ns": 5,
 "objects": [{"committed": true, "bytes": 5, "size_bytes": 5, "resumed_bytes": 0, "xxh3_128": "0123456789abcdef0123456789abcdef"}],
 "sent_bytes": 5, "resumed_bytes": 0, "acknowledged_bytes": 5, "chunks": 1, "work_requests": 1, "gather_entries": 1,
 "waits": {"source_ns": 1, "fabric_ns": 1, "destination_ns": 1}, $connection}
{$head, "command": "write", "plan_only": true, "exit_status": 0, "error": null,
 "destination": "h", "segments": 1, "objects_due": 1}
{$head, "command": "post", "exit_status": 0, "error": null,
 "destination": "h", "segments": 1, "attempts": 1, "bytes": 5, "duration_ns": 5, "confirmed": true, "work_requests": 1,
 "gather_entries": 1, "completions": [{"wr_id": 0, "bytes": 5, "status": "success"}], $connection}
{$head, "command": "serve", "role": "write", "exit_status": 0, "error": null,
 "sink": "s", "duration_ns": 5, "bytes": 5, "objects_committed": 0, "objects_failed": 1,
 "objects": [{"committed": false, "error": {"kind": "storage", "message": "m"}}], $connection}
{$head, "command": "serve", "role": "post", "exit_status": 0, "error": null,
 "sink": "s", "duration_ns": 5, $connection}
{$head, "command": "serve", "role": "check", "exit_status": 0, "error": null,
 "sink": "s", "duration_ns": 5, "writes_right": 1, "writes_wrong": 0, "echoes": 1, $connection}
{$head, "command": "check", "exit_status": 0, "error": null,
 "counts": {"ok": 0, "warning": 0, "skipped": 0, "failed": 0}, "findings": []}
{$head, "command": "check", "exit_status": 0, "error": null, "target": "h",
 "counts": {"ok": 1, "warning": 0, "skipped": 0, "failed": 0}, "figures": {},
 "findings": [{"name": "size-1", "result": "ok", "message": "m"}], $connection}
{$head, "command": "devices", "exit_status": 0, "error": null, "devices": []}
{$head, "command": "serve", "exit_status": 69,
 "error": {"kind": "unavailable", "message": "m"}}
END
}

# bats test_tags=fast
@test "the schema takes documents that are as they should be, and none that lacks what is due or has it wrong" {
  write_samples
  run with_schema -r 'include "schema"; faults($schema[0])' samples
  assert_success
  assert_output ''
  # Each with one field less, or with one of another type.
  run with_schema -rc 'include "schema";
    . as $document
    | paths
    | . as $path
    | select(($path | last | type) == "string")
    | ($document | delpaths([$path]), setpath($path; ["odd"]))
    | select([faults($schema[0])] == [])
    | "\($document.command) \($document.role // "") \($path | tojson)"' samples
  assert_success
  assert_output ''
}

# ---- schema, man page, program ----------------------------------------------------------------

# COMMAND - the fields of its documents, by the schema. An error's are told of once.
schema_fields() {
  with_schema -rn --arg command "$1" 'include "schema"; $schema[0] | fields_of($command)[]' |
    grep -v '^\.objects\[]\.error\.' | sort
}

# COMMAND - the same, by the man page
page_fields() {
  awk -v command="$1" '
    /^\.Ss / { wanted = $0 == ".Ss Every document" || $0 == ".Ss " command }
    /^\.Sh / { wanted = 0 }
    wanted && /^\.It Va \./ { print $3 }' "$page" | sort
}

# bats test_tags=fast
@test "rdmaput-json(5) describes the fields of the schema, and no others" {
  local command
  for command in "${commands[@]}"; do
    schema_fields "$command" > in-schema
    page_fields "$command" > in-page
    [ "$(wc -l < in-schema)" -ge 10 ]
    diff in-schema in-page || fail "$schema (<) and $page (>) differ for $command"
  done
}

# bats test_tags=fast
@test "each field that is a size or a time says its unit, in the schema" {

  run jq -r '.. | objects | .properties | objects | to_entries[]
    | (.value["$ref"] // "" | ltrimstr("#/$defs/")) as $kind
    | select(($kind == "bytes") != (.key | test("(^|_)bytes$")) or ($kind == "ns") != (.key | test("_ns$")))
    | .key' "$schema"
  assert_success
  assert_output ''
}

# bats test_tags=fast
@test "rdmaput-json(5) has its sections, and lint finds nothing in it" {
  local section
  for section in NAME DESCRIPTION FILES EXAMPLES 'SEE ALSO'; do
    grep -qx "\.Sh $section" "$page" || fail "$page has no $section"
  done
  need_command mandoc
  run mandoc -T lint -W warning "$page"
  assert_success
  assert_output ''
}

@test "what the commands print has the fields that the schema describes, and no others" {
  local command
  use_fake_fabric roce
  make_file a 300000
  mkdir -p out/b
  start_server --json-file sessions out
  rdmaput devices --json >> printed
  rdmaput write --json a "$dest/a" >> printed
  rdmaput write --json-file plan -n a "$dest/a"
  run rdmaput write --json-file mixed a a@@ missing "$dest/"
  rdmaput check --json --quick "$dest" >> printed
  run rdmaput write --json-file refused a "$dest/b"
  assert_equal "$status" 73
  make_file b 10
  run rdmaput write --json-file partly a b "$dest/"
  assert_equal "$status" 73
  stop_server
  run rdmaput write --json-file nobody a "$dest/a"
  assert_equal "$status" 69
  run rdmaput check --json-file failing "$dest"
  assert_equal "$status" 1
  # shellcheck disable=SC2016 # the other shell's
  printf '%s\n' '#!/bin/sh' shift 'exec sh -c "$*"' > rsh
  chmod +x rsh
  run rdmaput write --json-file there -e ./rsh --remote-program "$RDMAPUT" a host/missing/x
  assert_equal "$status" 73
  start_server --once --json-file region --region 1M --ticket ticket
  rdmaput post --json a "$(< ticket)" >> printed
  wait_server
  cat sessions plan mixed refused partly nobody failing there region >> printed
  for command in "${commands[@]}"; do
    schema_fields "$command" | grep -v '^\.error\.' > in-schema
    with_schema -r --arg command "$command" \
      'include "schema"; select(.command == $command) | fields_in[]' printed |
      grep -Ev '^\.(objects\[]\.)?error\.' | sort -u > in-print
    diff in-schema in-print || fail "$schema (<) and what $command prints (>) differ"
  done
  schema_fields devices | grep '^\.error\.' > in-schema
  with_schema -r 'include "schema"; (., .objects[]?) | .error? | objects | {error: .} | fields_in[]' printed |
    grep '^\.error\.' | sort -u > in-print
  diff in-schema in-print || fail "$schema (<) and the printed errors (>) differ"
}

# ---- where it goes ------------------------------------------------------------------------------

@test "--json prints a line for each command and nothing else, and --json-file the same into a file" {
  local command
  use_fake_fabric roce
  make_file a 1000
  mkdir out
  start_server out
  for command in devices check "check --quick $dest" "write a $dest/a" "write missing $dest/a" 'post a rdmaput1,127.0.0.1,7475,0x7f00,0x12,4096'; do
    # shellcheck disable=SC2086
    run --separate-stderr rdmaput $command --json
    assert_equal ${#lines[@]} 1
    jq -e --argjson status "$status" '.exit_status == $status and (.error == null) == ($status == 0)' <<< "$output"
    # shellcheck disable=SC2086
    run --separate-stderr rdmaput $command --json-file document
    assert_equal "$(wc -l < document)" 1
    jq -e --argjson status "$status" '.exit_status == $status' document
  done
  run --separate-stderr rdmaput devices --json-file document
  assert_regex "$output" 'max_sge'
}

@test "a server prints a line for each session, as it ends, and none when it ends well" {
  use_fake_fabric roce
  make_file a 1000
  mkdir -p out/c
  start_server --json out
  rdmaput write a "$dest/a"
  wait_for_text "$server_out" '"name":"a"'
  run rdmaput write a "$dest/c"
  assert_equal "$status" 73
  wait_for has_lines "$server_out" 2
  rdmaput write a "$dest/b"
  wait_for has_lines "$server_out" 3
  stop_server
  run jq -c '[.exit_status, [.objects[] | .name]]' "$server_out"
  assert_output '[0,["a"]]
[73,["c"]]
[0,["b"]]'
}
has_lines() { [ "$(wc -l < "$1")" -ge "$2" ]; }

# DOCUMENT-FILE KIND [NAME] - its last document lists one object that is not committed, and why, and counts it if it is
# a server's
assert_failed_object() {
  jq -se --arg kind "$2" --arg name "${3-}" '.[-1]
    | .objects_committed == 0 and (.objects_failed // 1) == 1
      and ([.objects[] | [.committed, .name // "", .error.kind]] == [[false, $name, $kind]])' "$1" ||
    fail "not one of $2: $(< "$1")"
}

@test "an object that was begun and failed is listed and counted, at both ends" {
  local end
  use_fake_fabric roce
  make_file a 1000
  start_server --json-file sessions there
  run rdmaput write --json-file document a "$dest/b"
  assert_equal "$status" 69
  wait_for has_lines sessions 1
  assert_failed_object document unavailable b
  assert_failed_object sessions unavailable b
  start_slow_client
  kill -TERM "$client_pid"
  wait_process "$client_pid"
  wait_for has_lines sessions 2
  assert_failed_object "$documents/$client_pid" interrupted
  assert_failed_object sessions temporary
  stop_server
  # Of several, that which the session was at.
  mkdir out
  start_server --json-file sessions out
  dest+=/ start_slow_client a
  wait_for exists out/a
  kill -TERM "$client_pid"
  wait_process "$client_pid"
  wait_for has_lines sessions 1
  for end in "$documents/$client_pid" sessions; do
    jq -e '.objects_committed == 1 and (.objects_failed // 1) == 1
      and [.objects[] | [.committed, (.error.kind | IN("interrupted", "temporary"))]] == [[true, false], [false, true]]' "$end"
  done
  stop_server
}

@test "an object that the session did not come to is not listed" {
  use_fake_fabric roce
  make_file a 1000
  run rdmaput write --json-file document a 127.0.0.1:1
  assert_equal "$status" 69
  jq -e '.objects == [] and .objects_due == 1' document
}

@test "a server that cannot serve prints why, once" {
  use_fake_fabric roce
  run --separate-stderr rdmaput serve --json --bind "$addr" missing/
  assert_equal "$status" 73
  jq -es 'length == 1 and .[0].exit_status == 73 and (.[0] | has("role") | not)' <<< "$output"
}

@test "the only transfer of --once that failed is told once, with the server's status" {
  use_fake_fabric roce
  start_server --once --json-file sessions --discard
  start_slow_client
  kill -KILL "$client_pid"
  wait_server
  assert_equal "$server_status" 75
  jq -es 'length == 1 and .[0].exit_status == 75 and .[0].role == "write"' sessions
}

@test "a command that a signal ends tells so" {
  use_fake_fabric roce
  start_server --discard
  start_slow_client
  kill -TERM "$client_pid"
  wait_process "$client_pid"
  assert_equal "$process_status" 143
  jq -e '.exit_status == 143 and .error.kind == "interrupted"' "$documents/$client_pid"
}

@test "text from outside becomes valid UTF-8" {
  local name=$'odd\xff\xc3(\xed\xa0\x80\xf0\x90\x80 end'
  use_fake_fabric roce
  need_command iconv
  make_file "$name" 10
  mkdir out
  start_server --json out
  rdmaput write --json "$name" "$dest/" > document
  run rdmaput write --json-file missing "$name missing" "$dest/x"
  assert_equal "$status" 66
  wait_for has_lines "$server_out" 1
  stop_server
  iconv -f UTF-8 -t UTF-8 document missing "$server_out" > /dev/null
  jq -e '.objects[0].name | startswith("odd\ufffd\ufffd(") and endswith(" end")' document
  jq -e '.objects[0].name | startswith("odd\ufffd\ufffd(") and endswith(" end")' "$server_out"
}

@test "a document says when it was printed" {
  local before after
  use_fake_fabric roce
  before=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
  TZ=Asia/Tokyo rdmaput devices --json > document
  after=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
  jq -e --arg before "$before" --arg after "$after" \
    '.time | $before <= . and . <= $after and test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z$")' document
}

# bats test_tags=fast
@test "a 64 for what an argument says gives a document, and one for an option none" {
  make_file a 10
  run --separate-stderr rdmaput write --json a user@host
  assert_equal "$status" 64
  jq -e '.exit_status == 64 and .error.kind == "usage"' <<< "$output"
  run --separate-stderr rdmaput write --json --no-such-option a host
  assert_equal "$status" 64
  assert_equal "$output" ''
}

@test "numbers are as large as they are" {
  use_fake_fabric roce
  make_file a 10
  start_server --once --region 1M --ticket ticket
  rdmaput post --json --context 0xfffffffffffffff0 a "$(< ticket)" > document
  grep -F '"wr_id":18446744073709551600,' document
}

# bats test_tags=fast
@test "where standard output carries something else, --json is refused with 64" {
  local arguments
  make_file a 10
  for arguments in 'write -n a host' 'serve -' 'serve --region 1M --bind 127.0.0.1 --ticket -'; do
    # shellcheck disable=SC2086
    run --separate-stderr rdmaput $arguments --json
    assert_equal "$status" 64
    assert_equal "$output" ''
    assert_regex "$stderr" 'hint: --json-file FILE'
  done
}

# bats test_tags=fast
@test "a file for documents that cannot be created is 73, before anything else" {
  local arguments
  make_file a 10
  for arguments in 'write a 127.0.0.1' 'post a rdmaput1,127.0.0.1,7475,0x7f00,0x12,4096' 'serve out' devices; do
    # shellcheck disable=SC2086
    run --separate-stderr rdmaput $arguments --json-file missing/file
    assert_equal "$status" 73
    assert_regex "$stderr" '^rdmaput: missing/file: cannot create: No such file'
  done
  assert_not_exist out
}

# bats test_tags=fast
@test "a file for documents has a name" {
  run --separate-stderr rdmaput devices --json-file=
  assert_equal "$status" 64
  assert_regex "$stderr" 'a FILE is due'
}

# bats test_tags=fast
@test "a file for documents that holds something else is 73, and stays: a source that was named by mistake" {
  local arguments
  make_file a 10
  cp a old
  for arguments in 'write a 127.0.0.1' 'post a rdmaput1,127.0.0.1,7475,0x7f00,0x12,4096' 'serve out' devices; do
    # shellcheck disable=SC2086
    run --separate-stderr rdmaput $arguments --json-file a
    assert_equal "$status" 73
    assert_regex "$stderr" '^rdmaput: a: cannot create: it holds something else than JSON of rdmaput'
    assert_same old a
  done
  assert_not_exist out
  : > own
  for arguments in first second; do
    run rdmaput write --json-file own a 127.0.0.1:1/$arguments
    assert_equal "$(jq -r .destination own)" "127.0.0.1:1/$arguments"
  done
}

# ---- where it cannot be written -----------------------------------------------------------------

# COMMAND... - it runs the program, with standard output where nothing can be written, and ends with 74, or
# what it failed of before, and a message that says why
assert_lost() {
  run --separate-stderr run_program "${losing[@]}" "$@"
  assert_equal "$status" "${lost_status-74}"
  assert_regex "$stderr" "rdmaput: .*cannot write .*: $why"
}

# With `losing`, a command that runs another one, and why: each command that prints something fails.
assert_losses() {
  use_fake_fabric roce
  make_file a 1000
  mkdir out
  assert_lost "$RDMAPUT" devices
  assert_lost "$RDMAPUT" devices --json
  lost_status=1 assert_lost "$RDMAPUT" check 127.0.0.1:1
  assert_lost "$RDMAPUT" write -n a host
  start_server out
  assert_lost "$RDMAPUT" check --quick "$dest"
  assert_lost "$RDMAPUT" check --quick --json "$dest"
  assert_lost "$RDMAPUT" write --json a "$dest/a"
  assert_regex "$stderr" "$why; all was delivered$"
  lost_status=66 assert_lost "$RDMAPUT" write --json missing "$dest/a"
  refute_regex "$stderr" delivered
  stop_server
  start_server --region 1M --ticket ticket
  assert_lost "$RDMAPUT" post a "$(< ticket)"
  assert_regex "$stderr" "$why; all was delivered$"
  assert_lost "$RDMAPUT" post --json a "$(< ticket)"
  assert_regex "$stderr" "$why; all was delivered$"
  stop_server
  server_wrapper=("${losing[@]}")
  start_server --json out
  rdmaput write a "$dest/b"
  rdmaput write a "$dest/c"
  kill -TERM "$server_pid"
  wait_server
  assert_equal "$server_status" 74
  assert_file_contains "$server_err" "cannot write .*: $why"
  assert_dir_holds out a b c
}

@test "a full disk on standard output is 74, for each command, and said" {
  losing=(bash -c 'exec "$@" > /dev/full' bash) why='No space left on device'
  assert_losses
}

@test "a broken pipe on standard output is 74, for each command, and said" {
  mkfifo broken
  losing=(bash -c 'exec 8<> "$0" > "$0" 8>&-; exec "$@"' "$PWD/broken") why='Broken pipe'
  assert_losses
}

@test "who reads no document keeps no server from ending: 74 after one signal, at once by the second" {
  local to hold
  use_fake_fabric roce
  make_file a 1000
  mkdir out
  mkfifo unread
  exec {hold}<> unread
  head -c 64K /dev/zero >&"$hold"
  for to in '--json-file unread' --json; do
    if [ "$to" = --json ]; then server_wrapper=(bash -c 'exec "$@" > unread' bash); fi
    # shellcheck disable=SC2086
    start_server $to out
    rdmaput write a "$dest/a"
    rdmaput write a "$dest/b"
    kill -TERM "$server_pid"
    WAIT_LIMIT=10 wait_server
    assert_equal "$server_status" 74
    assert_file_contains "$server_err" 'cannot write .*: Interrupted system call'
    # shellcheck disable=SC2086
    start_server $to out
    rdmaput write a "$dest/b"
    dest+=/c start_slow_client
    kill -TERM "$server_pid"
    wait_for_text "$server_err" 'no new sessions'
    kill -TERM "$server_pid"
    WAIT_LIMIT=10 wait_server
    assert_equal "$server_status" 143
    wait_process "$client_pid"
  done
}

@test "a full disk for --json-file is 74, for each command, and said" {
  local arguments
  use_fake_fabric roce
  make_file a 1000
  mkdir out
  start_server --json-file /dev/full out
  for arguments in devices "check --quick $dest" "write a $dest/a" "write -n a $dest/a"; do
    # shellcheck disable=SC2086
    run --separate-stderr rdmaput $arguments --json-file /dev/full
    assert_equal "$status" 74
    assert_regex "$stderr" 'rdmaput: /dev/full: cannot write .*: No space left on device'
    if [[ $arguments == "write a"* ]]; then assert_regex "$stderr" '; all was delivered$'; fi
  done
  kill -TERM "$server_pid"
  wait_server
  assert_equal "$server_status" 74
  start_server --region 1M --ticket ticket
  run --separate-stderr rdmaput post --json-file /dev/full a "$(< ticket)"
  assert_equal "$status" 74
  assert_output --partial 'delivery confirmed'
}

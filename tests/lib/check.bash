# check.bash - running `rdmaput check`, and what it found
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the tests use what is set here, and common.bash sets what is used

# STATUS [ARG...] - `check` ends so; its document is in the file json, and read_findings was called
check_json() {
  local got=0
  RUN_LIMIT=90 rdmaput check --json "${@:2}" > json 2> err || got=$?
  assert_equal "$got" "$1"
  read_findings "$1"
}

# STATUS - json is one line, that says so; sets findings, a line of NAME, RESULT, text and hint with tabs between
# for each, and failed, the names of those that failed
read_findings() {
  local line name result
  mapfile -t findings < <(jq -r '.exit_status, (.findings[] | [.name, .result, .message, .hint // ""] | @tsv)' json)
  mapfile -t json_lines < json
  assert_equal "${#json_lines[@]}" 1
  assert_equal "${findings[0]}" "$1"
  findings=("${findings[@]:1}") failed=''
  [ ${#findings[@]} -gt 0 ]
  for line in "${findings[@]}"; do
    IFS=$'\t' read -r name result _ <<< "$line"
    if [ "$result" = failed ]; then failed+=${failed:+ }$name; fi
  done
}

# NAME RESULT [TEXT [HINT]] - the finding has that result, and TEXT and HINT are parts of what it says
assert_finding() {
  local line name result text hint
  for line in "${findings[@]}"; do
    IFS=$'\t' read -r name result text hint <<< "$line"
    [ "$name" = "$1" ] || continue
    [[ $result == "$2" && $text == *"${3-}"* && $hint == *"${4-}"* ]] || fail "not $2, '${3-}', '${4-}': $line"
    return
  done
  fail "no finding $1 in: $(printf '%s\n' "${findings[@]}")"
}

# NAME... - the findings that failed, in order, and no others
assert_failed() { assert_equal "$failed" "$*"; }

# documents.bash - what processes tell as JSON, held against the schema and how they ended.
# shellcheck shell=bash

# Prints what is wrong with standard input, as documents.jq, which says what that is.
find_document_faults() {
  local lib=${BASH_SOURCE[0]%/*}
  jq -Rrn -L "$lib" --slurpfile schema "$lib/../../share/rdmaput.schema.json" "$(< "$lib/documents.jq")"
}

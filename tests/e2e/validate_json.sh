#!/bin/sh
# The schema checker used by other tests accepts what is valid, and notices each kind of fault.
set -eu
cd "$(dirname "$0")/../.."
d=$TMPDIR
cat >"$d/outer.schema.json" <<'JSON'
{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.invalid/outer.schema.json",
 "type": "object", "required": ["items"], "unevaluatedProperties": false,
 "properties": {"items": {"type": "array", "items": {"$ref": "item.schema.json#/$defs/item"}}}}
JSON
cat >"$d/item.schema.json" <<'JSON'
{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.invalid/item.schema.json",
 "$defs": {"item": {"type": "object", "properties": {"n": {"$ref": "#/$defs/count"}}}, "count": {"type": "integer", "minimum": 0}}}
JSON
echo '{"$ref": "https://example.invalid/nowhere.json"}' >"$d/remote.schema.json"

expect() {  # exit code, schema, content
  printf '%s' "$3" >"$d/content"
  status=0
  scripts/validate-json "$d/$2" "$d/content" || status=$?
  [ "$status" -eq "$1" ] || { echo "expected exit code $1, got $status for $3"; exit 1; }
}
expect 0 outer.schema.json '{"items": [{"n": 3}]}'
expect 1 outer.schema.json '{"items": [{"n": -1}]}'
expect 1 outer.schema.json '{"items": [], "more": 1}'
expect 1 outer.schema.json '{"items": [], "items": []}'
expect 1 outer.schema.json '{"items": [{"n": NaN}]}'
expect 1 outer.schema.json '{"items": ['
expect 2 remote.schema.json '{}'
expect 2 missing.schema.json '{}'

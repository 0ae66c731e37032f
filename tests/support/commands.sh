# Functions of end-to-end scripts that try commands. They count in $fails and leave the output of the last command in $TMPDIR/log.
fails=0
fail() { echo "FAIL $*"; fails=1; }
said() { grep -q -- "$1" "$TMPDIR/log" || { echo "FAIL no \"$1\" in: $(head -20 "$TMPDIR/log")"; fails=1; }; }
try() { # code, command...
  local code=$1
  shift
  "$@" >"$TMPDIR/log" 2>&1 </dev/null
  local got=$?
  [ $got -eq "$code" ] || { echo "FAIL exit code $got instead of $code: $*"; head -20 "$TMPDIR/log"; fails=1; }
}

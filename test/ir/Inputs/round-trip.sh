# SPDX-License-Identifier: Apache-2.0
# round-trip.sh FOLDER SCRATCH: prints every .dsir below FOLDER twice and compares.
set -eu
mkdir -p "$2"
files=$(find "$1" -name '*.dsir' -not -path '*/errors/*' | sort)
failed=0
for f in $files; do
  dsopt "$f" --split --no-verify > "$2/once" || { echo "$f does not parse"; failed=1; continue; }
  dsopt "$2/once" --split --no-verify > "$2/twice" || { echo "the print of $f does not parse"; failed=1; continue; }
  cmp "$2/once" "$2/twice" || { echo "$f prints differently the second time"; failed=1; }
done
test "$(echo "$files" | wc -l)" -gt 1
exit $failed

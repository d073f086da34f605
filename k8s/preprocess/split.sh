#!/bin/sh
# Turn raw CSV files into OUT/train-N.csv.gz and OUT/eval.csv.gz. Headers and empty lines are removed, and each
# EVAL_OF-th row goes to the evaluation file. Earlier output is replaced only when all new files are written; a second
# start repeats all work.
set -eu
: "${RAW:=/data/raw}" "${OUT:=/data}" "${HEADER_LINES:=1}" "${EVAL_OF:=10}" "${PARTS:=8}"

rm -rf "$OUT/.new"
mkdir "$OUT/.new"
for file in "$RAW"/*.csv "$RAW"/*.csv.gz; do
    [ -e "$file" ] || continue
    gzip -dcf "$file" >"$OUT/.new/file" # no pipe, so a truncated file ends the script here
    tail -n "+$((HEADER_LINES + 1))" "$OUT/.new/file" >>"$OUT/.new/rows"
done
touch "$OUT/.new/rows"
awk -v out="$OUT/.new" -v eval_of="$EVAL_OF" -v parts="$PARTS" '
    /^[[:space:]]*$/ { next }
    ++n % eval_of == 0 { print > (out "/eval.csv"); next }
    { print > (out "/train-" (train++ % parts) ".csv") }
    END { print n + 0 " rows: " train + 0 " to train on, " n - train " to evaluate on"; exit !(train && n > train) }' "$OUT/.new/rows" ||
    { echo "too few rows in $RAW/*.csv and *.csv.gz" >&2 && exit 1; }
rm -f "$OUT/.new/file" "$OUT/.new/rows"
gzip -n "$OUT"/.new/*.csv
rm -f "$OUT"/train-*.csv.gz
mv "$OUT"/.new/*.csv.gz "$OUT"
rmdir "$OUT/.new"

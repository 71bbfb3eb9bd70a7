#!/usr/bin/env bash
# The report in a real browser: the sample list sorts, filters and draws only what is in sight; nothing is fetched. And
# the same input gives the same bytes. Skipped where Chromium is absent (the byte comparison is not).
. "$(dirname "$0")/e2e.sh"

data=tests/data/records
report() { "$handoff" report $data/bf16.jsonl $data/q4.jsonl --reference $data/reference.jsonl --bootstrap 200 "$@"; }
check "a report" report --out "$scratch/a"
check "again, with other threads" report --threads 2 --out "$scratch/b"
check "the same bytes" diff -r "$scratch/a" "$scratch/b"
for f in index.html report.md auroc.csv auroc.json curve-bf16.csv curve-q4.json calibrate.json compare-q4.json thresholds.json \
    match-by-quant.csv drift-by-quant.csv plots/forest.svg plots/roc-mmlu.svg plots/handoff-docvqa.svg; do
    check "$f" test -s "$scratch/a/$f"
done
check "no address in the page" bash -c '! grep -oE "(https?:)?//[a-z0-9.-]+\.[a-z]{2,}|@import|url\(|<link|src=\"" "$1" | grep -v "^//www.w3.org" | grep .' _ "$scratch/a/index.html"
hostile='<\/script><img src=x onerror=alert(1)>'
sed "s/nitrogen/$hostile/; s/\"mmlu\"/\"m<img src=x>\"/" $data/bf16.jsonl > "$scratch/odd.jsonl"
check "hostile records" "$handoff" report "$scratch/odd.jsonl" --out "$scratch/odd"
check "stay text" bash -c '! grep -q "<img src=x" "$1"/index.html "$1"/plots/*.svg && grep -q "u003cimg src=x onerror" "$1/index.html"' _ "$scratch/odd"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "  skipped: no Chromium here"
    echo "$passed passed, $failed failed, 1 skipped"
    [ "$failed" -eq 0 ]
    exit
fi

# 20,000 samples: the list must stay quick, which means: few rows in the page however many samples there are.
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "{\"id\":\"s/%05d\",\"task\":\"t%d\",\"correct\":%s,\"confidence\":%.5f,\"output\":\"answer %d\",\"gold\":[\"g\"],\"entropy\":{\"mean\":%.3f}}\n", i, i % 4, i % 3 ? "true" : "false", (i * 7919 % 20000) / 20000, i, (i % 100) / 50 }' > "$scratch/many.jsonl"
check "a report of 20000 samples" "$handoff" report "$scratch/many.jsonl" --bootstrap 0 --out "$scratch/many"

cat > "$scratch/drive.html" <<'JS'
<pre id="result"></pre><script>
const out = [], say = (name, ok) => out.push((ok ? "pass " : "FAIL ") + name);
const rows = () => [...document.querySelectorAll("#space .row")];
const column = c => rows().map(r => r.querySelector(".c-" + c).textContent);
const set = (id, v) => { const e = document.getElementById(id); e.value = v; e.dispatchEvent(new Event("input")); };
const later = ms => new Promise(r => setTimeout(r, ms));
const count = () => document.getElementById("count").textContent;
(async () => {
  say("all samples listed", count().startsWith("20000 of 20000"));
  say("only rows in sight are drawn", rows().length > 5 && rows().length < 80);
  const head = document.querySelector("[data-key=confidence]");
  head.click();
  let c = column("confidence").map(Number);
  say("sorts up", c.every((v, i) => i === 0 || c[i - 1] <= v) && c[0] === 0);
  head.click();
  c = column("confidence").map(Number);
  say("sorts down", c.every((v, i) => i === 0 || c[i - 1] >= v) && c[0] === 1);
  say("tells readers the order", head.getAttribute("aria-sort") === "descending");
  const list = document.getElementById("list");
  list.scrollTop = 300000; list.dispatchEvent(new Event("scroll"));
  say("scrolls", column("confidence").map(Number)[0] < 0.6 && rows().length < 80);
  set("f-task", "2"); await later(10);
  say("filters by hold-out", count().startsWith("5000 of") && column("task").every(t => t === "t2"));
  set("f-verdict", "wrong"); await later(10);
  say("filters by verdict", count().startsWith("1667 of") && column("verdict").every(t => t === "wrong"));
  set("f-lo", "0.9"); await later(10);
  say("filters by confidence", column("confidence").every(v => +v >= 0.9 || v === "1.000"));
  set("f-lo", ""); set("f-task", ""); set("f-verdict", ""); set("f-text", "ANSWER 1234"); await later(300);
  say("searches", count().startsWith("11 of"));
  set("f-text", "no such thing"); await later(300);
  say("finds nothing", count().startsWith("0 of") && rows().length === 0);
  set("f-text", ""); await later(300);
  list.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown"}));
  say("opens a sample by key", document.getElementById("one").textContent.includes("gold"));
  say("fetches nothing", performance.getEntriesByType("resource").length === 0);
  document.getElementById("result").textContent = out.join("\n");
})();
</script>
JS
cat "$scratch/many/index.html" "$scratch/drive.html" > "$scratch/driven.html"
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --virtual-time-budget=20000 \
    --user-data-dir="$scratch/profile" --window-size=1200,900 --dump-dom "file://$scratch/driven.html" > "$scratch/dom.html" 2>/dev/null
sed -n '/<pre id="result">/,/<\/pre>/p' "$scratch/dom.html" | sed 's/<[^>]*>//g' | grep -E '^(pass|FAIL) ' > "$scratch/result"
check "the browser answered" test "$(wc -l < "$scratch/result")" -eq 13
while read -r verdict name; do check "$name" test "$verdict" = pass; done < "$scratch/result"
finish

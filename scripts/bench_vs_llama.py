#!/usr/bin/env python3
"""Measures this engine and llama.cpp in turn: prompts, decoding, start, memory, and whole evaluation jobs. Called by
scripts/bench-vs-llama, which prepares the peer. Every measurement is one line of WORK/results.jsonl; what stands there
is not measured again."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

HANDOFF = pathlib.Path(__file__).resolve().parent.parent / "handoff"
BATCHES = (1, 4, 8, 16)
SUBJECTS = ("astronomy", "chemistry", "geography", "history", "logic")
PORT = 18080


class Results:
    """results.jsonl: {"type", "measure", "engine", "round", "value"}."""

    def __init__(self, path):
        self.path, self.rows = path, []
        if path.exists():
            self.rows = [json.loads(line) for line in path.read_text().splitlines()]

    def has(self, kind, measure, engine, number):
        return any((r["type"], r["measure"], r["engine"], r["round"]) == (kind, measure, engine, number)
                   for r in self.rows)

    def add(self, kind, measure, engine, number, value, **more):
        row = {"type": kind, "measure": measure, "engine": engine, "round": number, "value": value, **more}
        self.rows.append(row)
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")
        print(f"  {kind} {measure} {engine} #{number}: {value:.4g}", file=sys.stderr, flush=True)

    def values(self, kind, measure, engine):
        return [r["value"] for r in self.rows
                if (r["type"], r["measure"], r["engine"]) == (kind, measure, engine)]


def run(command, **more):
    """Runs a command; (seconds, peak resident bytes, standard output). Says on stderr how busy it was: where that is far
    below the number of threads, something else was running."""
    start = time.monotonic()
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as p:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            out, err = pool.submit(p.stdout.read), pool.submit(p.stderr.read)
            _, status, usage = os.wait4(p.pid, 0)
            seconds = time.monotonic() - start
        p.returncode = os.waitstatus_to_exitcode(status)
        busy = (usage.ru_utime + usage.ru_stime) / seconds
        print(f"  {pathlib.Path(command[0]).name}: {seconds:.1f} s, {busy:.2f} CPUs", file=sys.stderr, flush=True)
        if p.returncode:
            sys.exit(f"{command[0]} ended with {p.returncode}:\n{err.result().decode()[-2000:]}")
    return seconds, usage.ru_maxrss * 1024, out.result().decode()


class Bench:
    def __init__(self, arguments):
        self.a = arguments
        self.work = pathlib.Path(arguments.work)
        self.peer = pathlib.Path(arguments.peer)
        self.results = Results(self.work / "results.jsonl")
        self.ours = {"handoff": []}
        if b"--activations" in subprocess.run([HANDOFF, "bench", "--help"], capture_output=True, check=False).stdout:
            self.ours = {"handoff int8": ["--activations", "int8"], "handoff f32": []}

    def model(self, kind):
        path = self.work / f"e2b-{kind.lower()}.gguf"
        if not path.exists():
            part = path.with_suffix(".part")
            run([sys.executable, HANDOFF.parent / "scripts/make_random_gguf.py", kind, part])
            part.rename(path)
        return path

    def engines(self, kind):
        """Ours with each arithmetic, and the peer. Rounding activations to int8 is for integer weights."""
        ours = {name: flags for name, flags in self.ours.items() if not (kind == "BF16" and "int8" in name)}
        return {**ours, "llama.cpp": None}

    # ---- single figures ------------------------------------------------------------------------------------------

    def bench_ours(self, kind, engine, number, what, prompt):
        command = [HANDOFF, "bench", "--model", self.model(kind), "--threads", self.a.threads, "--rounds", 1,
                   "--prompt", prompt, "--only", what, "--json", *self.ours[engine]]
        _, memory, out = run(command)
        figures = {f["name"]: f["median"] for f in json.loads(out)["figures"]}
        return figures, memory

    def prompts(self, kind, number):
        for engine in self.engines(kind):
            for size in (512, 2048):
                last, every = f"pp{size} last row", f"pp{size} all rows"
                if self.results.has(kind, last, engine, number):
                    continue
                if engine == "llama.cpp":
                    _, memory, out = run([self.peer / "llama-bench", "-m", self.model(kind), "-t", self.a.threads, "-p",
                                          size, "-n", 0, "-r", 1, "-o", "json"])
                    figures = {"prompt, last row": json.loads(out)[0]["avg_ts"]}
                    figures["prompt, all rows"] = figures["prompt, last row"]       # it computes all of them anyway
                else:
                    figures, memory = self.bench_ours(kind, engine, number, "prompt", size)
                self.results.add(kind, last, engine, number, figures["prompt, last row"])
                self.results.add(kind, every, engine, number, figures["prompt, all rows"])
                self.results.add(kind, f"peak memory, pp{size}", engine, number, memory / 2**30)

    def decoding(self, kind, number):
        for engine in self.engines(kind):
            if self.results.has(kind, "decode, batch 1", engine, number):
                continue
            if engine == "llama.cpp":
                _, _, out = run([self.peer / "llama-bench", "-m", self.model(kind), "-t", self.a.threads, "-p", 0, "-n",
                                 128, "-r", 1, "-o", "json"])
                rate = {1: json.loads(out)[0]["avg_ts"]}
                _, _, out = run([self.peer / "llama-batched-bench", "-m", self.model(kind), "-t", self.a.threads, "-c",
                                 4096, "-npp", 64, "-ntg", 32, "-npl", ",".join(map(str, BATCHES[1:])), "-kvu",
                                 "--output-format", "jsonl"])
                for line in out.splitlines():
                    if line.startswith("{"):
                        row = json.loads(line)
                        rate[row["pl"]] = row["speed_tg"]
            else:
                figures, _ = self.bench_ours(kind, engine, number, "decode", 512)
                rate = {b: figures[f"decode, batch {b}"] for b in BATCHES}
            for b in BATCHES:
                self.results.add(kind, f"decode, batch {b}", engine, number, rate[b])

    def starting(self, kind, number):
        for state in ("cold", "warm"):
            for engine in self.engines(kind):
                if self.results.has(kind, f"start, {state}", engine, number):
                    continue
                path = self.model(kind)
                command = [self.peer / "llama-completion", "-m", path, "-t", self.a.threads, "-n", 1, "-p", "t", "-c",
                           4096, "--no-warmup", "-no-cnv", "--ignore-eos"]
                if engine != "llama.cpp":
                    command = [HANDOFF, "generate", "--model", path, "--threads", self.a.threads, "--prompt", "t",
                               "--max-tokens", 1, *self.ours[engine]]
                if state == "cold":
                    forget(path)
                else:
                    run(command, stdin=subprocess.DEVNULL)
                seconds, _, _ = run(command, stdin=subprocess.DEVNULL)
                self.results.add(kind, f"start, {state}", engine, number, seconds)

    # ---- whole jobs ----------------------------------------------------------------------------------------------

    def job_data(self):
        root = self.work / "data"
        rng = random.Random(1)
        if not root.exists():
            part = self.work / "data.part"
            shutil.rmtree(part, ignore_errors=True)
            for split, n in (("dev", 5), ("test", 40)):
                (part / "mmlu" / split).mkdir(parents=True)
                for subject in SUBJECTS:
                    lines = [",".join(question(rng)) for _ in range(n)]
                    (part / "mmlu" / split / f"{subject}_{split}.csv").write_text("\n".join(lines) + "\n")
            (part / "gsm8k").mkdir()
            for split, n in (("train", 3), ("test", 50)):
                lines = [json.dumps({"question": words(rng, 80), "answer": words(rng, 40) + f"\n#### {i + 2}"})
                         for i in range(n)]
                (part / "gsm8k" / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
            part.rename(root)
        return root

    def job(self, name):
        """(suite, prompts in the order of the samples, tokens to generate)"""
        root, quick = self.job_data(), self.a.quick
        if name == "MMLU":
            limit, tokens, task = (40 if quick else 200), 2, {"task": "mmlu", "path": "mmlu", "shots": 5}
            prompts = mmlu_prompts(root / "mmlu")
        else:
            limit, tokens, task = (10 if quick else 50), 150, {"task": "gsm8k", "path": "gsm8k", "shots": 3}
            prompts = gsm8k_prompts(root / "gsm8k")
        suite = self.work / f"{name}.json"
        suite.write_text(json.dumps({"tasks": [{**task, "prompt": "harness", "max_tokens": tokens}]}))
        if quick and name == "MMLU":        # a few of each subject, as the whole has them
            limit = 40
        return suite, prompts[:limit], tokens

    def run_ours(self, kind, engine, name):
        suite, prompts, tokens = self.job(name)
        out = self.work / "run"
        shutil.rmtree(out, ignore_errors=True)
        seconds, memory, _ = run([HANDOFF, "run", "--model", self.model(kind), "--suite", suite, "--data-root",
                                  self.job_data(), "--limit", len(prompts), "--threads", self.a.threads, "--out", out,
                                  *self.ours[engine]])
        records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
        if [r["tokens"] for r in records] != [tokens] * len(prompts):
            sys.exit(f"{name}: {len(records)} records, not all of {tokens} tokens: the work would not be the same")
        stamp = json.loads((out / "run.json").read_text())
        ask = [r["prompt_tokens"] for r in records]
        if ask != [len(re.sub(r"<\|turn>|<turn\|>", "x", p)) + 1 for p in prompts]:
            sys.exit(f"{name}: the prompts of both engines differ: {ask[:3]}")
        more = {"batch": stamp.get("batch"), "prefix": stamp.get("prefix_cache"),
                "encode_ms": 0, "prefill_ms": sum(r["ms"]["prefill"] for r in records),
                "decode_ms": sum(r["ms"]["decode"] for r in records)}
        return seconds, memory, more

    def run_peer(self, kind, name, slots):
        """llama-server with so many slots; the time of the requests alone, without its start."""
        _, prompts, tokens = self.job(name)
        context = slots * (1024 + 160)
        command = [self.peer / "llama-server", "-m", self.model(kind), "-t", self.a.threads, "-np", slots, "-c",
                   context, "--swa-full", "--port", PORT, "--no-webui", "-cram", 0]
        with open(self.work / "server.log", "w") as log, subprocess.Popen(
                [str(c) for c in command], stdout=log, stderr=subprocess.STDOUT) as server:
            try:
                wait_until_ready(server)
                ask(prompts[0][:40], 1)
                start = time.monotonic()
                with concurrent.futures.ThreadPoolExecutor(slots) as pool:
                    answers = list(pool.map(lambda p: ask(p, tokens), prompts))
                seconds = time.monotonic() - start
            finally:
                server.terminate()
                _, _, usage = os.wait4(server.pid, 0)
                server.returncode = 0
        print(f"  llama-server -np {slots}: {seconds:.1f} s, {usage.ru_utime + usage.ru_stime:.0f} s of CPU time, start "
              "included", file=sys.stderr, flush=True)
        made = [a["timings"]["predicted_n"] for a in answers]
        if made != [tokens] * len(prompts):
            sys.exit(f"{name}: llama-server made {made[:5]} tokens, not {tokens}")
        computed = sum(a["timings"]["prompt_n"] for a in answers)
        return seconds, usage.ru_maxrss * 1024, {"slots": slots, "prompt_tokens_computed": computed,
                                                 "prompt_tokens": sum(len(p) for p in prompts)}

    def jobs(self, kind, number):
        for name in ("MMLU", "GSM8K"):
            measure = f"{name} job" + (", quick" if self.a.quick else "")
            for engine in self.engines(kind):
                if engine != "llama.cpp":
                    if not self.results.has(kind, measure, engine, number):
                        seconds, memory, more = self.run_ours(kind, engine, name)
                        self.results.add(kind, measure, engine, number, seconds, **more)
                        self.results.add(kind, measure + ", peak memory", engine, number, memory / 2**30)
                    continue
                for slots in self.a.slots:          # the best set-up counts, see best()
                    if not self.results.has(kind, measure, f"llama.cpp -np {slots}", number):
                        seconds, memory, more = self.run_peer(kind, name, slots)
                        self.results.add(kind, measure, f"llama.cpp -np {slots}", number, seconds, **more)
                        self.results.add(kind, measure + ", peak memory", f"llama.cpp -np {slots}", number,
                                         memory / 2**30)

    # ---- the table -----------------------------------------------------------------------------------------------

    def best_peer(self, kind, measure):
        """The peer's values, for jobs those of the set-up with the smallest median."""
        names = {r["engine"] for r in self.results.rows if r["type"] == kind and r["measure"] == measure and
                 r["engine"].startswith("llama.cpp")}
        found = [(statistics.median(self.results.values(kind, measure, n)), n) for n in names]
        if not found:
            return [], ""
        name = min(found)[1]
        return self.results.values(kind, measure, name), name

    def table(self):
        measures = list(dict.fromkeys(r["measure"] for r in self.results.rows))
        kinds = list(dict.fromkeys(r["type"] for r in self.results.rows))
        print("| weights | measure | unit | llama.cpp | this engine | ratio |")
        print("|---|---|---|---:|---:|---:|")
        for kind in kinds:
            for measure in measures:
                theirs, name = self.best_peer(kind, measure)
                unit = "GiB" if "memory" in measure else "s" if "job" in measure or "start" in measure else "tokens/s"
                ours = [e for e in dict.fromkeys(r["engine"] for r in self.results.rows) if e.startswith("handoff")]
                for engine in ours:
                    values = self.results.values(kind, measure, engine)
                    if not values:
                        continue
                    ratio = "-"
                    if theirs:
                        ratio = statistics.median(values) / statistics.median(theirs)
                        ratio = f"{ratio if unit != 's' else 1 / ratio:.2f}"
                    label = measure + {"handoff int8": ", int8", "handoff f32": ", float32"}.get(engine, "")
                    set_up = f" {name[10:]}" if name[10:] else ""
                    print(f"| {kind} | {label} | {unit} | {spread(theirs)}{set_up} | {spread(values)} | {ratio} |")


def spread(values):
    if not values:
        return "-"
    figure = f"{statistics.median(values):.3g}"
    return figure if len(values) == 1 else f"{figure} ({min(values):.3g}-{max(values):.3g})"


def forget(path):
    """Out of the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def words(rng, length):
    """Random words, `length` characters in all: each character is a token of the random checkpoint."""
    s = " ".join("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 9)))
                 for _ in range(length // 3))
    return s[:length - 1].rstrip() + "x"


def question(rng):
    return [words(rng, 80), *(words(rng, 8) for _ in "ABCD"), rng.choice("ABCD")]


def turn(text):
    """As the checkpoint's template has it; llama-server adds <bos> itself."""
    return f"<|turn>user\n{text}<turn|>\n<|turn>model\n"


def mmlu_prompts(root):
    def asked(row):
        return row[0] + "".join(f"\n{label}. {text}" for label, text in zip("ABCD", row[1:5])) + "\nAnswer:"

    prompts = []
    for subject in SUBJECTS:
        rows = {split: [line.split(",") for line in
                        (root / split / f"{subject}_{split}.csv").read_text().splitlines()]
                for split in ("dev", "test")}
        intro = f"The following are multiple choice questions (with answers) about {subject}.\n\n"
        intro += "".join(f"{asked(r)} {r[5]}\n\n" for r in rows["dev"])
        prompts += [turn(intro + asked(r)) for r in rows["test"]]
    return prompts


def gsm8k_prompts(root):
    rows = {split: [json.loads(line) for line in (root / f"{split}.jsonl").read_text().splitlines()]
            for split in ("train", "test")}
    intro = "".join(f"Question: {r['question']}\nAnswer: {r['answer']}\n\n" for r in rows["train"])
    return [turn(f"{intro}Question: {r['question']}\nAnswer:") for r in rows["test"]]


def ask(prompt, tokens):
    body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "cache_prompt": True, "ignore_eos": True}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)


def wait_until_ready(server):
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        if server.poll() is not None:
            break
        time.sleep(0.5)
    sys.exit("llama-server did not start; see server.log")


def main():
    p = argparse.ArgumentParser(prog="scripts/bench-vs-llama")
    p.add_argument("--work", help=argparse.SUPPRESS)
    p.add_argument("--peer", help=argparse.SUPPRESS)
    p.add_argument("--types", default="Q4_0,Q4_K_M,Q8_0,BF16")
    p.add_argument("--rounds", type=int, default=3, help="of prompts, decoding and start (3)")
    p.add_argument("--job-rounds", type=int, default=1, help="of the whole jobs (1)")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--slots", default="1,4,8", help="how many slots of llama-server to try for the jobs (1,4,8)")
    p.add_argument("--only", default="prompts,decoding,starting,jobs", help="some of these (all)")
    p.add_argument("--quick", action="store_true", help="40 questions and 10 generations instead of 200 and 50")
    p.add_argument("--table", action="store_true", help="measure nothing, print the table")
    a = p.parse_args()
    a.slots = [int(n) for n in a.slots.split(",")]
    bench = Bench(a)
    if not a.table:
        for number in range(max(a.rounds, a.job_rounds)):
            for kind in a.types.split(","):
                for what in a.only.split(","):
                    if number < (a.job_rounds if what == "jobs" else a.rounds):
                        getattr(bench, what)(kind, number)
    bench.table()


if __name__ == "__main__":
    main()

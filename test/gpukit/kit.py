#!/usr/bin/env python3
"""Runs memgauge on a real GPU and writes down what it shows: figures, verdicts, and recordings that become test data.

    python3 kit.py [--out DIR] [--only NAME,NAME] [--dry] [--seconds 480]

Needs Python 3.8 or newer with a PyTorch for CUDA, and the GPU's driver; nothing else, no root and no network. It
changes no setting of the GPU. DIR (default: kit-out beside this file) gets result.json, a log of every command, and
recordings. --dry runs on the processor what can be run without a GPU, so that the kit itself is not tried for the
first time where a GPU is. Exit code 0: every check held; 3: one did not; 1: the kit itself failed.
"""
import argparse
import ctypes
import json
import os
import shutil
import sys
import time

from harness import HERE, MIB, Kit, Skip, Unmet, near, want


def smi(kit, *args):
    """nvidia-smi's answer, or Skip."""
    if kit.dry or not shutil.which("nvidia-smi"):
        raise Skip("no nvidia-smi")
    return kit.do("nvidia-smi", *args, seconds=60)


def smi_used(kit):
    """(bytes used on GPU 0, {pid: bytes}) as nvidia-smi tells them: MiB, rounded."""
    used = int(smi(kit, "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0").split()[0]) * MIB
    apps = {}
    for line in smi(kit, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits").splitlines():
        fields = [f.strip() for f in line.split(",")]
        if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
            apps[int(fields[0])] = int(fields[1]) * MIB
    return used, apps


# --- the checks, in the order in which they run --------------------------------------------------------------------


def machine(kit):
    """What is here: versions, the GPU by nvidia-smi and by memgauge doctor."""
    code = ("import sys, json, torch; print(json.dumps({'python': sys.version, 'torch': torch.__version__, "
            "'cuda': torch.version.cuda, 'gpu': torch.cuda.get_device_name() if torch.cuda.is_available() else None, "
            "'capability': torch.cuda.get_device_capability() if torch.cuda.is_available() else None}))")
    kit.figures.update(json.loads(kit.do(kit.python, "-c", code, seconds=240)))
    kit.figures["memgauge"] = kit.ask("--version").strip()
    kit.figures["kernel"] = " ".join(os.uname())
    doctor = kit.ask("doctor", "--json", "--python", kit.python, codes=(0, 3))
    kit.write("doctor.json", doctor)
    kit.ask("doctor", "--python", kit.python, codes=(0, 3))
    if not kit.dry:
        want(kit.figures["gpu"], "this PyTorch sees no GPU")
        kit.write("nvidia-smi.xml", smi(kit, "-q", "-x"))
        want("nvidia" in doctor.lower(), "doctor does not name the GPU")


# What memgauge asks of NVML for one device, and the size of the answer in bytes.
NVML = (("nvmlDeviceGetName", 96, True), ("nvmlDeviceGetUUID", 96, True), ("nvmlDeviceGetMemoryInfo", 24, False),
        ("nvmlDeviceGetMemoryInfo_v2", 40, False), ("nvmlDeviceGetUtilizationRates", 8, False),
        ("nvmlDeviceGetPowerUsage", 4, False), ("nvmlDeviceGetEnforcedPowerLimit", 4, False),
        ("nvmlDeviceGetCurrentClocksEventReasons", 8, False), ("nvmlDeviceGetCurrPcieLinkGeneration", 4, False),
        ("nvmlDeviceGetCurrPcieLinkWidth", 4, False), ("nvmlDeviceGetMigMode", 8, False),
        ("nvmlDeviceGetPciInfo_v3", 68, False))


def nvml(kit):
    """Records the raw answers of NVML, byte for byte."""
    kit.gpu_only()
    lib = ctypes.CDLL("libnvidia-ml.so.1")
    want(lib.nvmlInit_v2() == 0, "nvmlInit_v2 failed")
    device, answers = ctypes.c_void_p(), {}
    want(lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0, "no device 0")
    for name, size, sized in NVML:
        function = getattr(lib, name, None)
        if function is None:
            answers[name] = {"missing": True}
            continue
        answer = ctypes.create_string_buffer(max(size, 128))
        if name == "nvmlDeviceGetMemoryInfo_v2":
            ctypes.memmove(answer, ctypes.byref(ctypes.c_uint32(40 | 2 << 24)), 4)
        if name == "nvmlDeviceGetMigMode":
            code = function(device, answer, ctypes.byref(answer, 4))
        else:
            code = function(device, answer, size) if sized else function(device, answer)
        answers[name] = {"code": code, "answer": answer.raw[:size].hex()}
    for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
                 "nvmlDeviceGetMPSComputeRunningProcesses_v3"):
        count, answer = ctypes.c_uint(64), ctypes.create_string_buffer(64 * 24)
        code = getattr(lib, name)(device, ctypes.byref(count), answer)
        answers[name] = {"code": code, "count": count.value, "answer": answer.raw[:24 * min(count.value, 64)].hex()}
    lib.nvmlShutdown()
    kit.write("nvml.json", json.dumps(answers, indent=1))
    kit.figures["nvml_codes"] = {name: a.get("code", "missing") for name, a in answers.items()}


def run_training(kit, name, leak, steps, codes=(0,), *flags):
    """memgauge run of programs/train.py. Returns (session, what PyTorch itself counted)."""
    session, truth = kit.path(name), kit.path(name + ".json")
    kit.ask("run", *flags, "--session", session, "--", kit.python, kit.program("train.py"), "--leak", leak, "--steps",
            str(steps), "--out", truth, seconds=150, codes=codes)
    kit.rows(session, "SELECT 1 AS drained")
    kit.keep(os.path.join(session, "session.duckdb"), name + ".duckdb")
    with open(truth) as f:
        return session, json.load(f)


def healthy(kit):
    """A healthy training: no alarm, and the device's bytes of each step are PyTorch's own."""
    session, truth = run_training(kit, "healthy", "none", 600)
    report = kit.asked("leak", "--session", session, "--json", codes=(0, 3))
    kit.figures["healthy_verdict"] = report["verdict"]
    want(report["verdict"] == "healthy", "a healthy training is called %s: %s" % (report["verdict"], [
        (f["memory"], f["verdict"], f["rate_mb_per_step"], f["reason"]) for f in report["findings"]
        if f["verdict"] != "healthy"]))
    steps = kit.rows(session, "SELECT sum(steps) AS n FROM python.steps")[0]["n"]
    want(steps == truth["steps"], "%s steps recorded, %s made" % (steps, truth["steps"]))
    if kit.dry:
        return
    recorded = kit.rows(session, "SELECT step, allocated, reserved, max_allocated, max_reserved "
                                 "FROM python.step_devices ORDER BY step")
    want(recorded, "python.step_devices is empty")
    kit.figures["healthy_device_rows"] = len(recorded)
    by_step = {r["step"]: r for r in recorded}
    compared = 0
    for own in truth["every"]:
        row = by_step.get(own["step"])
        if row:
            compared += 1
            want(row["reserved"] == own["reserved"], "step %d: reserved %d, PyTorch says %d" % (
                own["step"], row["reserved"], own["reserved"]))
    kit.figures["healthy_steps_compared"] = compared
    last = recorded[-1]
    want(last["max_reserved"] == truth["peak_reserved"], "peak reserved %d, PyTorch says %d" % (
        last["max_reserved"], truth["peak_reserved"]))
    used = kit.rows(session, "SELECT max(used_bytes) AS used, max(total_bytes) AS total, max(power_w) AS power, "
                             "max(temperature_c) AS degrees, max(gpu_util_pct) AS busy FROM gpu.utilization")[0]
    kit.figures["healthy_gpu_utilization"] = used
    want(used["used"] and used["total"], "gpu.utilization has no bytes")
    near(used["total"], truth["total"], 0.05, "gpu.utilization's total")
    processes = kit.rows(session, "SELECT pid, kind, max(used_bytes) AS used, bool_or(in_job) AS in_job, "
                                  "any_value(comm) AS comm FROM gpu.processes GROUP BY ALL")
    kit.figures["healthy_gpu_processes"] = processes
    kit.figures["trainer_pid"] = truth["pid"]
    want(any(p["pid"] == truth["pid"] and p["in_job"] and p["used"] for p in processes) or not processes,
         "gpu.processes does not know the trainer: %s" % processes)
    kit.ask("where", "--session", session)
    kit.write("healthy_report.json", kit.ask("report", "--session", session, "--json", codes=(0, 3)))


def expect_leak(kit, session, memory, wanted_mib, names, share=0.05):
    report = kit.asked("leak", "--session", session, "--json", codes=(0, 3))
    kit.ask("leak", "--session", session, codes=(0, 3))
    found = [f for f in report["findings"] if f["verdict"] == "leak" and memory in f["memory"]]
    kit.figures[os.path.basename(session) + "_findings"] = [
        {k: f.get(k) for k in ("memory", "verdict", "class", "rate_mb_per_step", "site", "holder", "start_step",
                               "reason", "time_to_limit_seconds", "limit")} for f in report["findings"]]
    want(found, "no leak of %s: %s" % (memory, [(f["memory"], f["verdict"], f["reason"]) for f in report["findings"]]))
    near(found[0]["rate_mb_per_step"], wanted_mib, share, "rate in MiB a step")
    told = "%s %s" % (found[0].get("holder"), found[0].get("site"))
    want(any(n in told for n in names), "held by %s, wanted one of %s" % (told, names))
    return found[0]


def leak_on_device(kit):
    """1 MiB of the device a step, kept in a list: memory, rate, holder and line."""
    session, _ = run_training(kit, "device", "device", 500)
    if kit.dry:
        return expect_leak(kit, session, "", 1, ("kept_outputs",))
    found = expect_leak(kit, session, "", 1, ("kept_outputs",))
    want(found["device"] == "cuda:0", "device %s" % found["device"])
    want(found["limit"], "the finding names no limit")


def leak_of_graphs(kit):
    """Losses kept with their graphs."""
    session, truth = run_training(kit, "graph", "graph", 500)
    report = kit.asked("leak", "--session", session, "--json", codes=(0, 3))
    kit.ask("leak", "--session", session, codes=(0, 3))
    found = [f for f in report["findings"] if f["verdict"] == "leak"]
    want(found, "no leak found")
    kit.figures["graph"] = {k: found[0].get(k) for k in ("memory", "class", "rate_mb_per_step", "holder", "site")}
    want("kept_losses" in str(found[0]["holder"]), "held by %s" % found[0]["holder"])
    want(found[0]["class"] == "autograd_graph", "class %s" % found[0]["class"])
    if not kit.dry:
        first, last = truth["every"][0], truth["every"][-1]
        rate = (last["allocated"] - first["allocated"]) / (last["step"] - first["step"]) / MIB
        near(found[0]["rate_mb_per_step"], rate, 0.05, "rate in MiB a step")


def leak_on_host(kit):
    """512 KiB of the host a step, in a training on the GPU."""
    session, _ = run_training(kit, "host", "host", 500)
    expect_leak(kit, session, "", 0.5, ("kept_arrays",))


def leak_outside(kit):
    """1 MiB a step from the driver, past PyTorch."""
    kit.gpu_only()
    session, truth = run_training(kit, "outside", "outside", 900)
    kit.figures["outside_truth"] = truth["every"][-1]
    report = kit.asked("leak", "--session", session, "--json", codes=(0, 3))
    kit.ask("leak", "--session", session, codes=(0, 3))
    found = [f for f in report["findings"] if f["verdict"] == "leak" and f["class"] == "outside_allocator"]
    kit.figures["outside_findings"] = [(f["memory"], f["verdict"], f["class"], f["rate_mb_per_step"], f["reason"])
                                       for f in report["findings"]]
    want(found, "not found: %s" % kit.figures["outside_findings"])
    near(found[0]["rate_mb_per_step"] or 0, 1, 0.15, "rate in MiB a step")


def attached(kit):
    """Attach to a training that runs: where against nvidia-smi, leak, tensors, backtrace, eval, snapshot, detach."""
    stop, truth = kit.path("attached.stop"), kit.path("attached.json")
    child = kit.start(kit.python, kit.program("train.py"), "--leak", "device", "--stop", stop, "--out", truth)
    pid = str(child.pid)
    try:
        kit.figures["attach_says"] = kit.ask("attach", pid, "--name", "attached").strip().splitlines()[0]
        begin = time.monotonic()
        verdict = "undecided"
        while verdict == "undecided" and time.monotonic() - begin < 60:
            time.sleep(3)
            verdict = kit.asked(pid, "leak", "--json", codes=(0, 3))["verdict"]
        kit.figures["attached_seconds_to_verdict"] = time.monotonic() - begin
        want(verdict == "leak", "verdict %s after a minute" % verdict)
        kit.ask(pid, "tensors")
        kit.ask(pid, "backtrace")
        kit.ask(pid, "fragment", codes=(0, 3))
        want(kit.ask(pid, "eval", "type(kept_outputs).__name__").strip() == "'list'", "eval")
        if not kit.dry:
            where_is(kit, pid)
            allocated = int(kit.ask(pid, "eval", "--at", "step", "torch.cuda.memory_allocated()"))
            want(allocated > 0, "eval at a step's end")
            kit.ask(pid, "snapshot", "record", "--on")
            time.sleep(2)
            shot = kit.path("attached.pickle")
            kit.ask(pid, "snapshot", "take", "-o", shot)
            kit.ask(pid, "snapshot", "record", "--off")
            kit.ask("snapshot", shot, codes=(0, 3))
            kit.keep(shot, "attached.pickle")
        kit.ask("detach", pid)
    finally:
        open(stop, "w").close()
        kit.end(child)
    want(child.returncode == 0, "the trainer ended with %s" % child.returncode)
    kit.ask("attached", "leak", codes=(0, 3))


def where_is(kit, pid):
    """The device's bytes by memgauge where, beside nvidia-smi's and PyTorch's."""
    sums = []
    for _ in range(3):
        before = smi_used(kit)
        doc = kit.asked(pid, "where", "--json")
        after = smi_used(kit)
        device = next(iter(doc["devices"].values()), None)
        want(device, "where shows no device")
        sums.append({"smi_before": before[0], "smi_after": after[0], "apps": after[1], "where": device})
        named = sum(device.get(k) or 0 for k in ("allocator_live_bytes", "allocator_cached_bytes", "context_bytes",
                                                 "outside_bytes", "other_processes_bytes", "driver_bytes"))
        sums[-1]["named"] = named
    kit.figures["where"] = sums
    kit.ask(pid, "where")
    last = sums[-1]
    low, high = sorted((last["smi_before"], last["smi_after"]))
    used = last["where"]["used_bytes"]
    want(used and low - 64 * MIB <= used <= high + 64 * MIB, "used %s, nvidia-smi says %d to %d" % (used, low, high))
    near(last["named"], used + (last["where"].get("driver_bytes") or 0), 0.02, "sum of the named bytes", 8 * MIB)


def gap(kit):
    """NCCL's communicator in torchrun: bytes outside PyTorch's allocator."""
    kit.gpu_only()
    session = kit.path("nccl")
    out = kit.ask("run", "--session", session, "--", kit.python, "-m", "torch.distributed.run", "--nproc-per-node", "1",
                  "--master-port", "29611", kit.program("nccl.py"), "400", seconds=120)
    took = [int(line.split()[2]) for line in out.splitlines() if line.startswith("nccl took")]
    kit.figures["nccl_took_bytes"] = took
    doc = kit.asked("where", "--session", session, "--json")
    kit.figures["nccl_where"] = doc["devices"]
    device = doc["devices"].get("0", {})
    want((device.get("used_bytes") or 0) > 0, "where of a finished session shows a GPU that is not used")
    if took:
        context = (device.get("context_bytes") or 0) + (device.get("outside_bytes") or 0)
        want(context >= took[0], "NCCL took %d bytes, context and outside are %d" % (took[0], context))
    ranks = kit.rows(session, "SELECT DISTINCT rank FROM python.steps WHERE rank IS NOT NULL")
    want(ranks == [{"rank": 0}], "ranks %s" % ranks)
    kit.ask("where", "--session", session)


def oom(kit):
    """A real CUDA out-of-memory error: the post-mortem, and the snapshot that it left."""
    session = kit.path("oom")
    if kit.dry:
        kit.ask("run", "--record-memory", "--session", session, "--", kit.python, kit.program("oom.py"))
        return
    kit.ask("run", "--record-memory", "--session", session, "--", kit.python, kit.program("oom.py"), codes=(1,),
            seconds=150)
    events = kit.rows(session, "SELECT * FROM memgauge.events WHERE name LIKE 'oom%'")
    kit.figures["oom_events"] = events
    want(events, "no oom event")
    kit.ask("list", "-a")
    kit.ask("oom", "--session", session, codes=(0, 1, 2, 3))
    found = kit.asked("leak", "--session", session, "--json", codes=(0, 3))
    kit.figures["oom_leak"] = [(f["memory"], f["verdict"], f["rate_mb_per_step"], f["holder"], f["limit"],
                                f["limit_step"]) for f in found["findings"]]
    worst = found["findings"][0]
    want(worst["verdict"] == "leak" and worst["memory"] == "device" and "activations" in str(worst["holder"]) and
         worst["limit_met"], "of a run that ended out of memory leak says %s" % kit.figures["oom_leak"])
    kit.ask("leak", "--session", session, codes=(0, 3))
    kit.ask("where", "--session", session)
    shots = [n for n in os.listdir(session) if n.startswith("snapshot.")]
    want(shots, "no snapshot in the session")
    shot = os.path.join(session, shots[0])
    page = kit.asked("snapshot", shot, "--json", codes=(3,))
    kit.ask("snapshot", shot, codes=(3,))
    want(any(d["oom"] for d in page["devices"]), "the snapshot's page names no OOM")
    kit.keep(shot, "oom.pickle")
    kit.ask("report", "--session", session, "-o", kit.path("oom.html"), codes=(0, 3))
    kit.keep(kit.path("oom.html"), "oom.html")


def fragments(kit):
    """Holes in PyTorch's cache, counted by memgauge fragment and by PyTorch."""
    stop = kit.path("fragments.stop")
    child = kit.start(kit.memgauge, "run", "--name", "fragments", "--", kit.python, kit.program("fragments.py"), stop)
    try:
        doc = kit.asked("fragments", "fragment", "--json", codes=(0, 3))
        kit.ask("fragments", "fragment", codes=(0, 3))
        kit.write("fragment.json", json.dumps(doc, indent=1))
        kit.figures["fragment"] = {name: d.get("fragmentation") if isinstance(d, dict) else d
                                   for name, d in (doc.get("devices") or {}).items()}
        if not kit.dry:
            want("0" in (doc.get("devices") or {}), "no device in the report")
    finally:
        open(stop, "w").close()
        kit.end(child)


def replayed(kit, expandable):
    """PyTorch's recorded history replayed under its own settings: the peak must be the GPU's, to the byte."""
    kit.gpu_only()
    name = "expandable" if expandable else "segments"
    shot, truth = kit.path(name + ".pickle"), kit.path(name + ".json")
    conf = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if expandable else {}
    kit.do(kit.python, kit.program("history.py"), shot, truth, env=conf)
    kit.keep(shot, name + ".pickle")
    shutil.copy(truth, os.path.join(kit.out, "recordings"))
    with open(truth) as f:
        own = json.load(f)
    page = kit.asked("snapshot", shot, "--json", codes=(0, 3))
    kit.ask("snapshot", shot, codes=(0, 3))
    peak = page["devices"][0]["peak"]
    doc = kit.asked("alloc", "replay", shot, "--policy", "torch", "--json")
    policy = doc["policies"][0]
    kit.ask("alloc", "replay", shot)
    kit.ask("alloc", "advise", shot)
    kit.figures["replay_" + name] = {"truth": own,
                                     "snapshot_peak": {k: v for k, v in peak.items() if isinstance(v, int)},
                                     "recorded": doc["recorded"], "replayed": policy}
    want(peak["reserved_peak_bytes"] == own["peak_reserved"], "snapshot's peak reserved %d, PyTorch says %d" % (
        peak["reserved_peak_bytes"], own["peak_reserved"]))
    want(own["peak_requested"] in (None, peak["requested_bytes"]), "snapshot's peak requested %d, PyTorch says %s" % (
        peak["requested_bytes"], own["peak_requested"]))
    want(policy["peak_reserved_bytes"] == own["peak_reserved"], "replayed peak reserved %d, PyTorch says %d" % (
        policy["peak_reserved_bytes"], own["peak_reserved"]))
    want(policy["end_reserved_bytes"] == own["reserved"], "replayed end %d, PyTorch says %d" % (
        policy["end_reserved_bytes"], own["reserved"]))


def replay_segments(kit):
    """alloc replay against this GPU's truth, segments of fixed size."""
    replayed(kit, False)


def replay_expandable(kit):
    """alloc replay against this GPU's truth, expandable segments."""
    replayed(kit, True)


def driver(kit):
    """The allocator's own tests on the real driver."""
    kit.gpu_only()
    test = os.path.join(HERE, "bin", "cuda.test")
    if not os.path.exists(test):
        raise Skip("built without bin/cuda.test")
    out = kit.do(test, "-test.v", "-test.run", "GPU|Real", seconds=90)
    kit.figures["driver_tests"] = [line for line in out.splitlines() if line.startswith("---")]
    want(any("PASS" in line for line in kit.figures["driver_tests"]), "no test ran: " + out[-300:])


def pluggable(kit):
    """memgauge's allocator in PyTorch's place: the same losses, streams, graphs, an OOM's text."""
    kit.gpu_only()
    env = {"PYTHONPATH": os.path.join(HERE, "lib"),
           "MEMGAUGE_ALLOC_LIBRARY": os.path.join(HERE, "bin", "libmemgauge_alloc.so")}
    results = {}
    failed = []
    for settings in ("-", "policy:torch", "policy:packed", "policy:vmm"):
        out = kit.path("pluggable_%s.json" % settings.replace(":", "_"))
        try:
            kit.do(kit.python, kit.program("pluggable.py"), settings, out, env=env, seconds=90)
            with open(out) as f:
                results[settings] = json.load(f)
        except Unmet as e:
            failed.append(str(e))
    kit.figures["pluggable"] = {name: {k: r[k] for k in ("ms_per_step", "wrong_after_record_stream", "graph_error",
                                                         "driver_used", "oom")} for name, r in results.items()}
    kit.figures["pluggable_stats"] = {name: {k: v for k, v in r["stats"].items() if "all." in k or "." not in k}
                                      for name, r in results.items()}
    want(not failed, "; ".join(failed))
    own = results.pop("-")
    for name, r in results.items():
        want(r["losses"] == own["losses"], "%s: other losses than PyTorch's allocator gives: %s" % (name, [
            (i, a, b) for i, (a, b) in enumerate(zip(r["losses"], own["losses"])) if a != b][:3]))
        want(r["wrong_after_record_stream"] == 0, "%s: blocks reused under another stream" % name)
        want(r["graph_error"] <= max(own["graph_error"], 1e-5), "%s: a CUDA graph's result differs by %g" % (
            name, r["graph_error"]))


def overhead(kit):
    """What the agent costs the training thread at about 5, 20 and 100 ms a step, in paired blocks."""
    if kit.dry:
        raise Skip("measured on a GPU; on the processor: test/bench/trainer_cost.py")
    out = kit.do(kit.python, os.path.join(HERE, "trainer_cost.py"), "--device", "cuda", "14",
                 env={"PYTHONPATH": os.path.join(HERE, "lib")}, seconds=120)
    kit.figures["overhead"] = out.splitlines()


CHECKS = (machine, nvml, healthy, leak_on_device, leak_of_graphs, leak_on_host, replay_segments, replay_expandable,
          attached, oom, pluggable, leak_outside, gap, fragments, driver, overhead)


def run(kit, only):
    results = []
    for check in CHECKS:
        name = check.__name__
        if only and name not in only:
            continue
        begin, state, text = time.monotonic(), "ok", ""
        try:
            if kit.deadline - begin < 15:
                raise Skip("no time was left")
            check(kit)
        except Skip as e:
            state, text = "skipped", str(e)
        except Unmet as e:
            state, text = "FAILED", str(e)
        except Exception as e:  # the others go on
            state, text = "FAILED", "%s: %s" % (type(e).__name__, e)
        took = time.monotonic() - begin
        results.append({"check": name, "what": check.__doc__, "state": state, "text": text, "seconds": round(took, 1)})
        print("%-18s %-8s %5.1f s  %s" % (name, state, took, text.replace("\n", " ")[:600]), flush=True)
        with open(os.path.join(kit.out, "result.json"), "w") as f:
            json.dump({"checks": results, "figures": kit.figures, "dry": kit.dry}, f, indent=1, default=str)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(HERE, "kit-out"))
    parser.add_argument("--only", help="names of checks, separated by commas: " + ", ".join(c.__name__ for c in CHECKS))
    parser.add_argument("--dry", action="store_true", help="what can be run without a GPU")
    parser.add_argument("--seconds", type=float, default=480, help="end after so many seconds (default 480)")
    parser.add_argument("--python", default=sys.executable, help="the Python with PyTorch (default: this one)")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    unknown = set(only or ()) - {c.__name__ for c in CHECKS}
    if unknown:
        parser.error("no such check: %s" % ", ".join(sorted(unknown)))
    kit = Kit(options)
    try:
        results = run(kit, only)
    finally:
        for child in kit.running:
            child.kill()
            child.wait()
        kit.log.close()
    failed = sum(r["state"] == "FAILED" for r in results)
    print("%d checks, %d failed, %d skipped; %s" % (len(results), failed, sum(
        r["state"] == "skipped" for r in results), os.path.join(kit.out, "result.json")))
    return 3 if failed else 0


sys.exit(main())

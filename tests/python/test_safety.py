"""Misuse ends in an exception that says what to do, never in a crash: each case in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

Subprocess = Callable[..., "subprocess.CompletedProcess[str]"]

PREAMBLE = """
import gc, os, signal, sys, threading, time
import numpy as np
import kpusim
from kpusim.nem import NemInterpreter
RELU = os.environ["RELU"]
LONG = RELU.replace("[0..3]", "[0..30000000]").replace("i * T", "(i mod 4) * T")
x = np.linspace(-1, 1, 256).astype(np.float16)
y = np.maximum(x, 0)

def refused(action, *words, kind=kpusim.UserError):
    try:
        action()
    except kind as error:
        text = str(error)
        assert all(word in text for word in words), text
        assert kind is not kpusim.UserError or error.fix, text
    else:
        raise AssertionError("nothing was raised")

def run(x, **options):
    return kpusim.simulate(RELU, "npm_lite", {"x": x}, **options)
"""


def check(in_subprocess: Subprocess, code: str, timeout: float = 60) -> None:
    """The code ends by printing ok, and the process by exit code 0."""
    result = in_subprocess(PREAMBLE + code + "\nprint('ok')", timeout)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("ok\n")


#: Mistakes: what is done, and what the message has.
MISTAKES = [
    "refused(lambda: run(x[:-1]), 'input `x`', '255 elements', '256 elements')",
    "refused(lambda: run(x.astype(np.float32)), 'float32', 'float16')",
    "refused(lambda: run(x.astype(np.complex64)), 'complex64')",
    "refused(lambda: run(np.array(['a'] * 256)), '<U1')",
    "refused(lambda: run(np.array([object()] * 256)), 'object')",
    "refused(lambda: run(np.zeros(256, dtype='M8[s]')), 'datetime64')",
    "refused(lambda: run(np.zeros(256, dtype=[('a', 'f2')])), 'dtype')",
    "refused(lambda: run(np.ma.masked_array(x, x > 0)), 'masked')",
    "refused(lambda: run([[1.0], [1.0, 2.0]]), 'not an array')",
    "refused(lambda: run(None), 'object')",
    "refused(lambda: kpusim.simulate(RELU, 'npm_lite', {}), 'no data for input x')",
    "refused(lambda: kpusim.simulate(RELU, 'npm_lite', {'X': x}), '`X` is not', 'mean `x`')",
    "refused(lambda: kpusim.simulate(RELU, 'npm_lite', {3: x}), 'names no input')",
    "refused(lambda: kpusim.simulate(RELU, 'npm_lite', {'x': x}, mode='fast'), 'mode')",
    "refused(lambda: run(x, order=3), 'order')",
    "refused(lambda: kpusim.Platform.load('tile32', {'l2.banks': '1'}), 'not a list of folders')",
    "refused(lambda: kpusim.Program.load('x.nem', 'tile32'), 'not a list of folders')",
    "refused(lambda: run(x, fill=-1), 'fill')",
    "refused(lambda: run(x, params={'N': 3}), 'N')",
    "refused(lambda: kpusim.Program.of(3), 'int')",
    "refused(lambda: kpusim.Program.load('/nowhere/p.nem'), '/nowhere/p.nem')",
    "refused(lambda: kpusim.Program.parse(b'KPUPROG\\0' + b'x' * 99), '<text>')",
    "refused(lambda: kpusim.Program.parse(b'\\x80\\x04K\\x01.'), 'pickle')",
    "refused(lambda: kpusim.Program.parse('a\\0b'), '<text>')",
    "refused(lambda: kpusim.Events.load('/nowhere'), '/nowhere')",
    "refused(lambda: NemInterpreter().step(), 'load')",
    "refused(lambda: run(x).events.power(0.0), 'bins')",
    "refused(lambda: run(x).events.power(float('nan')), 'bins')",
    "refused(lambda: run(x, mode='functional').events, 'functional')",
    "refused(lambda: run(x).save('/proc/nowhere'), '/proc/nowhere')",
    "refused(lambda: run(x, max_cycles=2**64), 'max_cycles')",
    "refused(lambda: kpusim.Platform.load('npm_lite').with_(**{'engine.array.rows': 0}), 'rows')",
    "refused(lambda: kpusim.Platform.load('npm_lite').with_(**{'engine.array.rows': 'x'}), 'rows')",
]


def test_mistakes_are_refused(in_subprocess: Subprocess) -> None:
    """Every mistake names itself and its fix, and the process goes on: a good run follows each."""
    check(
        in_subprocess,
        "".join(f"{line}\nassert np.array_equal(run(x).outputs['y'], y)\n" for line in MISTAKES),
    )


def test_any_array_of_the_right_values_is_taken(in_subprocess: Subprocess) -> None:
    """Strided, reversed, read-only, big-endian, Fortran, shaped, foreign and empty-stride arrays."""
    check(
        in_subprocess,
        """
wide = np.zeros(512, np.float16); wide[::2] = x
frozen = x.copy(); frozen.flags.writeable = False
forms = [wide[::2], x[::-1][::-1], frozen, x.astype('>f2'), x.reshape(16, 16), np.asfortranarray(x),
         np.frombuffer(x.tobytes(), np.float16), memoryview(x), x.reshape(4, 64).T.copy().T]
for form in forms:
    assert np.array_equal(run(form).outputs['y'], y)
same = np.broadcast_to(np.float16(0.5), 256)
assert np.array_equal(run(same).outputs['y'], same)
assert not frozen.flags.writeable
""",
    )


def test_objects_may_be_freed_in_any_order(in_subprocess: Subprocess) -> None:
    """Arrays, records and results live on without what they came from; inputs were copied."""
    check(
        in_subprocess,
        """
mine = x.copy()
simulation = kpusim.Simulation(RELU, "npm_lite", events=True)
simulation.set_inputs({"x": mine})
mine[:] = 0
del mine
result = simulation.run()
del simulation
records, outputs, power = result.events.records, result.outputs["y"], result.power
del result
gc.collect()
junk = [np.ones(1 << 20) for _ in range(8)]
assert records["time_ps"].max() > 0 and np.array_equal(outputs, y) and power.total.min() >= 0
try:
    records["op"][0] = 1
except ValueError:
    pass
outputs[0] = 1
""",
    )


def test_results_outlive_the_next_run_of_their_simulation(in_subprocess: Subprocess) -> None:
    """They stay as they are; what would need the simulation's state says that it has moved on."""
    check(
        in_subprocess,
        """
simulation = kpusim.Simulation(RELU, "npm_lite")
first = simulation.run({"x": x})
second = simulation.run({"x": -x})
assert np.array_equal(first.outputs["y"], y) and np.array_equal(second.outputs["y"], np.maximum(-x, 0))
refused(lambda: first.save("/tmp/never"), "since this run")
assert len(first.events) > 0
""",
    )


def test_exceptions_in_callbacks(in_subprocess: Subprocess) -> None:
    """They end the run and arrive as they are; a callback cannot use the simulation that calls it."""
    check(
        in_subprocess,
        """
class Mine(Exception):
    pass
def fail(cycle, tasks):
    raise Mine(cycle)
simulation = kpusim.Simulation(LONG, "npm_lite", mode="timing")
refused(lambda: simulation.run(progress=fail), kind=Mine)
refused(lambda: simulation.run(progress=lambda *_: simulation.step(1)), "own callback")
refused(lambda: simulation.run(progress=3), "progress=3")
seen = []
def stop(cycle, tasks):
    seen.append((cycle, tasks))
    if len(seen) == 3:
        raise Mine
refused(lambda: simulation.run(progress=stop), kind=Mine)
assert seen == sorted(seen) and seen[0][0] > 0 and seen[0][1] > 0
simulation.reset()
assert simulation.step(500) == "paused"
""",
    )


@pytest.mark.parametrize("mode", ["values+timing", "timing", "functional"])
def test_ctrl_c_stops_a_run(in_subprocess: Subprocess, mode: str) -> None:
    """KeyboardInterrupt comes within moments, and the process can simulate on."""
    check(
        in_subprocess,
        f"""
def interrupt():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
simulation = kpusim.Simulation(LONG, "npm_lite", mode="{mode}")
simulation.set_inputs({{"x": x}})
start = time.monotonic()
refused(simulation.run, kind=KeyboardInterrupt)
assert time.monotonic() - start < 10
assert simulation.status == "interrupted"
assert np.array_equal(run(x).outputs["y"], y)
simulation.reset()
assert simulation.step(300) == "paused"
""",
    )


def test_a_signal_handler_that_returns_does_not_stop_the_run(in_subprocess: Subprocess) -> None:
    """Handlers of Python run during a simulation."""
    check(
        in_subprocess,
        """
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.05)
medium = LONG.replace("30000000", "30000")
run = kpusim.simulate(medium, "npm_lite", {"x": x})
while not seen:
    time.sleep(0.01)
assert run.complete
""",
    )


def test_threads(in_subprocess: Subprocess) -> None:
    """Other threads go on during a run, simulate themselves, and cannot enter a simulation that runs."""
    check(
        in_subprocess,
        """
medium = LONG.replace("30000000", "30000")
ticks, busy = [], []
shared = kpusim.Simulation(medium, "npm_lite", mode="timing")
def tick():
    while len(ticks) < 100000 and not done:
        ticks.append(1)
        try:
            shared.state()
        except kpusim.UserError as error:
            busy.append(str(error))
        time.sleep(0.001)
done = False
thread = threading.Thread(target=tick)
thread.start()
shared.run()
done = True
thread.join()
assert len(ticks) > 10 and any("another thread" in text for text in busy)
results = {}
def simulate(name):
    results[name] = run(x).cycles
threads = [threading.Thread(target=simulate, args=(n,)) for n in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(results) == 6 and len(set(results.values())) == 1
""",
    )


def test_runs_share_their_threads(in_subprocess: Subprocess) -> None:
    """One run after the other takes no thread more; runs at once take one each, kept for later ones."""
    check(
        in_subprocess,
        """
def count():
    return len(os.listdir("/proc/self/task"))
def settles(most):
    for _ in range(200):  # a thread that Python has joined is still there for a moment
        if count() <= most:
            return True
        time.sleep(0.05)
run(x)
before = count()
for _ in range(5):
    run(x)
assert settles(before), count()
medium = LONG.replace("30000000", "3000")
def simulate():
    kpusim.simulate(medium, "npm_lite", mode="timing")
threads = [threading.Thread(target=simulate) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert settles(before + 2), count()
child = os.fork()
if child == 0:
    signal.alarm(20)
    run(x)
    os._exit(0 if settles(2) else 1)
assert os.waitpid(child, 0)[1] == 0
""",
    )


def test_many_runs_take_no_memory(in_subprocess: Subprocess) -> None:
    """RSS is flat without the garbage collector: no cycles of references hold a simulation."""
    check(
        in_subprocess,
        """
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
gc.disable()
program, platform = kpusim.Program.of(RELU), kpusim.Platform.load("npm_lite")
for i in range(400):
    kpusim.simulate(program, platform, {"x": x}).outputs
    if i == 100:
        before = resident()
grown = resident() - before
assert grown < 4 << 20, grown
""",
    )


def test_an_engine_may_simulate(in_subprocess: Subprocess) -> None:
    """An engine that runs another simulation gets it, with the same results, instead of a deadlock."""
    check(
        in_subprocess,
        """
class Nested:
    def __init__(self):
        self.runs = []
    def supports(self, opcode, inputs, outputs):
        return opcode == "relu"
    def execute(self, opcode, inputs, outputs, attributes):
        if len(self.runs) < 3:
            self.runs.append(kpusim.simulate(RELU, "swkpu-v1", {"x": x}))
            stepped = kpusim.Simulation(RELU, "npm_lite", mode="timing")
            stepped.step(50)
            assert stepped.cycle == 50
        return [np.maximum(inputs[0].array, 0)]

own = run(x)
engine = Nested()
outer = run(x, engine=engine)
assert outer.cycles == own.cycles and (outer.outputs["y"] == own.outputs["y"]).all()
# what leaves the range of its type is counted of our arithmetic alone
assert dict(outer.stats) == {key: own.stats[key] for key in own.stats if not key.startswith("values.")}
alone = kpusim.simulate(RELU, "swkpu-v1", {"x": x})
assert len(engine.runs) == 3
for inner in engine.runs:
    assert dict(inner.stats) == dict(alone.stats) and (inner.outputs["y"] == y).all()
""",
    )


def test_fork_while_a_thread_simulates(in_subprocess: Subprocess) -> None:
    """The child has simulations of its own; the parent's goes on."""
    check(
        in_subprocess,
        """
own = run(x)
long = kpusim.Simulation(LONG, "npm_lite")
class Enough(Exception):
    pass
under_way, enough, caught, cycles = threading.Event(), threading.Event(), [], []
def progress(cycle, tasks):
    cycles.append(cycle)
    under_way.set()
    if enough.is_set():
        raise Enough
def simulate():
    try:
        long.run({"x": x}, progress=progress)
    except Enough as error:
        caught.append(error)
thread = threading.Thread(target=simulate)
thread.start()
assert under_way.wait(20)
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        again = run(x)
        refused(lambda: long.step(1), "running in another thread")
        os._exit(0 if dict(again.stats) == dict(own.stats) else 1)
    assert os.waitpid(child, 0)[1] == 0
child = os.fork()
if child == 0:  # the interpreter takes everything down, what was half done, too
    signal.alarm(20)
    assert dict(run(x).stats) == dict(own.stats)
    print('ok')
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
before = len(cycles)
while len(cycles) == before and thread.is_alive():
    time.sleep(0.01)
enough.set()
thread.join()
assert caught and len(cycles) > before and cycles == sorted(cycles)
long.reset()
assert long.step(500) == "paused"
""",
    )

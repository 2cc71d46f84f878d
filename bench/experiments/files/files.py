# SPDX-License-Identifier: MIT
"""tlc-delta beside other programs, on a model in four shards: sizes, times, memory.

    files.py TLC_DELTA MB LEARNING_RATE FOLDER THREADS RUNS

A model is drawn, and the same after a step of Adam. Seconds are those of the fastest of RUNS runs, with the files in
the system's memory; memory is the largest resident set of a process, with the parts of mapped files that are in memory.
What comes out is compared. Prints a table for Markdown.
"""
import filecmp
import json
import os
import pathlib
import shutil
import struct
import sys
import time

import numpy as np

SHARDS = 4
tool, mb, lr, top, threads, runs = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), pathlib.Path(sys.argv[4]), \
    sys.argv[5], int(sys.argv[6])
old, new = top / 'old', top / 'new'


def bf16(x):
    u = x.view(np.uint32)
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def make_models():
    """normal weights of deviation 0.02; a step of Adam moves each by lr (1 + 0.3 z), up or down"""
    for folder in old, new:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    rng, shape, weight_map = np.random.default_rng(1), (2048, 4096), {}
    per_shard = max(1, round(mb * 2**20 / SHARDS / (2 * shape[0] * shape[1])))
    changed = total = 0
    for shard in range(SHARDS):
        name = f'model-{shard + 1:05}-of-{SHARDS:05}.safetensors'
        size = 2 * shape[0] * shape[1]
        table = {f'model.layers.{shard * per_shard + i}.weight': {'dtype': 'BF16', 'shape': shape,
                 'data_offsets': [i * size, (i + 1) * size]} for i in range(per_shard)}
        text = json.dumps(table).encode()
        text += b' ' * (-len(text) % 8)
        with open(old / name, 'wb') as a, open(new / name, 'wb') as b:
            for file in a, b:
                file.write(struct.pack('<Q', len(text)) + text)
            for tensor in table:
                weight_map[tensor] = name
                w = rng.standard_normal(shape, np.float32) * np.float32(0.02)
                step = (1 + 0.3 * rng.standard_normal(shape, np.float32)) * np.float32(lr)
                step *= np.where(rng.random(shape, np.float32) < 0.5, np.float32(-1), np.float32(1))
                before, after = bf16(w), bf16(w + step)
                changed += int((before != after).sum())
                total += before.size
                a.write(before.tobytes())
                b.write(after.tobytes())
    for folder in old, new:
        (folder / 'model.safetensors.index.json').write_text(json.dumps({'metadata': {}, 'weight_map': weight_map}))
        (folder / 'config.json').write_text('{}')
    return changed, total


def timed(*commands):
    """wall seconds, and the largest resident memory in MB of the commands, one after the other"""
    seconds = memory = 0
    for command in commands:
        start = time.monotonic()
        pid = os.posix_spawnp(command[0], [str(word) for word in command], os.environ,
                              file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0),
                                            (os.POSIX_SPAWN_OPEN, 2, '/dev/null', os.O_WRONLY, 0)])
        _, status, usage = os.wait4(pid, 0)
        seconds += time.monotonic() - start
        if status:
            sys.exit(f'{command}: status {status}')
        memory = max(memory, usage.ru_maxrss / 1024)
    return seconds, memory


XOR = """import sys, numpy as np
a, b = (np.memmap(path, np.uint8, 'r') for path in sys.argv[1:3])
out = np.memmap(sys.argv[3], np.uint8, 'w+', shape=a.shape)
for at in range(0, len(a), 1 << 24):
    out[at:at + (1 << 24)] = a[at:at + (1 << 24)] ^ b[at:at + (1 << 24)]
out.flush()"""


def shards(function):
    return [command for path in sorted(old.glob('*.safetensors')) for command in function(path.name)]


def ways():
    d, out = top / 'deltas', top / 'out'
    yield 'tlc-delta', [[tool, 'make', '-q', '-j', threads, old, new, d / 'all']], \
        [[tool, 'apply', '-q', '-j', threads, d / 'all', old, out]]
    yield 'tlc-delta --in-place', [[tool, 'make', '-q', '-j', threads, '-b', old, new, d / 'all']], \
        [[tool, 'apply', '-q', '-j', threads, '--in-place', d / 'all', out]]
    yield 'XOR + zstd -1', shards(lambda n: [['python3', '-c', XOR, old / n, new / n, d / (n + '.xor')],
                                             ['zstd', '-q', '-f', '-1', '-T' + threads, '--rm', d / (n + '.xor')]]), \
        shards(lambda n: [['zstd', '-q', '-f', '-d', d / (n + '.xor.zst'), '-o', out / (n + '.xor')],
                          ['python3', '-c', XOR, old / n, out / (n + '.xor'), out / n], ['rm', out / (n + '.xor')]])
    yield 'zstd --patch-from', shards(lambda n: [['zstd', '-q', '-f', '-1', '-T' + threads, '--long=31', '--patch-from',
                                                  old / n, new / n, '-o', d / (n + '.zst')]]), \
        shards(lambda n: [['zstd', '-q', '-f', '-d', '--long=31', '--memory=2048MB', '--patch-from', old / n,
                           d / (n + '.zst'), '-o', out / n]])
    yield 'xdelta3 -1', shards(lambda n: [['xdelta3', '-q', '-f', '-1', '-e', '-B', 1 << 30, '-s', old / n, new / n,
                                           d / (n + '.vcdiff')]]), \
        shards(lambda n: [['xdelta3', '-q', '-f', '-d', '-B', 1 << 30, '-s', old / n, d / (n + '.vcdiff'), out / n]])


# In a process of its own: what a process has in memory counts for those that it starts.
made = top / 'made.json'
if not (pid := os.fork()):
    made.write_text(json.dumps(make_models()))
    os._exit(0)
os.waitpid(pid, 0)
changed, total = json.loads(made.read_text())
model = sum(path.stat().st_size for path in new.iterdir())
print(f'{model:,} bytes in {SHARDS} shards, {100 * changed / total:.2f}% of {total:,} bf16 weights changed, '
      f'{threads} threads\n')
print('| | bytes | of the model | bits for each changed weight | make, s | GB/s | memory, MB | apply, s | GB/s | '
      'memory, MB |')
print('|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|')
for name, make, apply in ways():
    d, out = top / 'deltas', top / 'out'
    made = applied = (float('inf'), 0)
    for _ in range(runs):
        for folder in d, out:
            shutil.rmtree(folder, ignore_errors=True)
        d.mkdir()
        made = min(made, timed(*make))
        if 'in-place' in name:
            shutil.copytree(old, out)
        elif name != 'tlc-delta':
            out.mkdir()
        applied = min(applied, timed(*apply))
        files = [path.name for path in new.glob('*.safetensors')]
        if filecmp.cmpfiles(new, out, files, shallow=False)[0] != files:
            sys.exit(f'{name}: other bytes came out')
    size = sum(path.stat().st_size for path in d.iterdir())
    print(f'| {name} | {size:,} | {100 * size / model:.2f}% | {8 * size / changed:.2f} | {made[0]:.2f} | '
          f'{model / made[0] / 1e9:.2f} | {made[1]:.0f} | {applied[0]:.2f} | {model / applied[0] / 1e9:.2f} | '
          f'{applied[1]:.0f} |', flush=True)
for name in 'deltas', 'out':
    shutil.rmtree(top / name, ignore_errors=True)

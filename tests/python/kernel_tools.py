# SPDX-License-Identifier: MIT
"""What the tests of Triton's kernels share: kernels that are wrong, the last of many programs, the bytes of torch
operations, and what is compiled for GPUs. Import it before others import triton."""
import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import torch

HERE = importlib.util.find_spec("triton") is not None and not torch.__version__.startswith("1.")
if HERE:
    os.environ["TRITON_INTERPRET"] = "1"
    import numpy
    import triton
    from triton.runtime import interpreter
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    def _scan(self, input, _scan=interpreter.ScanOps.generic_scan):
        """Maxima by numpy: the interpreter calls the function for each value."""
        if self.combine_fn.fn.__name__ != "larger":
            return _scan(self, input)
        return [self.to_tensor(numpy.maximum.accumulate(input[0].handle.data, axis=self.axis), input[0].dtype)]

    interpreter.ScanOps.generic_scan = _scan

CPU = torch.device("cpu")
COMPILE = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

def made(kernel, types, constants):
    \"\"\"Prints it for a GPU of NVIDIA, and one of AMD. types: of arguments; those that are not in it are i32.\"\"\"
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in kernel.arg_names}
    source = ASTSource(kernel, signature, {(kernel.arg_names.index(name),): of for name, of in constants.items()})
    for target in GPUTarget("cuda", 80, 32), GPUTarget("hip", "gfx942", 64):
        found = compile(source, target=target, options={"enable_fp_fusion": False})
        print(found.asm["ptx" if target.backend == "cuda" else "amdgcn"])

"""


def compiled(program, *words):
    """What a program prints that calls made()."""
    with tempfile.TemporaryDirectory() as cache:
        return subprocess.run([sys.executable, "-c", COMPILE + program, *words], check=True, capture_output=True,
                              text=True, env={**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": cache}).stdout


@contextlib.contextmanager
def mutant(original, old, new):
    """A module with another text."""
    text = Path(original.__file__).read_text()
    assert text.count(old) == 1, old
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.py"
        path.write_text(text.replace(old, new))
        spec = importlib.util.spec_from_file_location(f"{original.__package__}.mutant", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def chosen(original, sweeps_for, *arguments, module=None):
    """What sweeps_for() chooses if the kernels are those of another module in place of the original, and the
    warnings."""
    module = module or original
    sweeps_for.cache_clear()
    try:
        with mock.patch.dict(sys.modules, {original.__name__: module}), \
                mock.patch.object(sys.modules[original.__package__], original.__name__.rpartition(".")[2], module), \
                warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sweeps = [sweeps_for(*arguments) for _ in range(2)]
    finally:
        sweeps_for.cache_clear()
    return sweeps[0], [str(warning.message) for warning in caught if "threelc" in str(warning.message)]


class LastProgram:
    """Of the programs of a kernel only the last one runs."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __getitem__(self, grid):
        last = numpy.array([grid[0] - 1], numpy.int32)

        def run(*args, **kwargs):
            with mock.patch.object(interpreter.InterpreterBuilder, "create_get_program_id",
                                   lambda builder, axis: interpreter.TensorHandle(last, triton.language.int32)):
                self._kernel[1,](*args, **kwargs)
        return run


class Traffic(TorchDispatchMode if HERE else object):
    """Counts the bytes that torch operations read and write. Views are free, and so is memory that is only taken."""

    def __init__(self):
        super().__init__()
        self.read = self.written = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function.is_view or "empty" in str(function):
            return out
        tensors, out_tensors = ([item for item in tree_flatten(items)[0] if isinstance(item, torch.Tensor)]
                                for items in ((args, kwargs or {}), out))
        overwritten = [args[0]] if "copy_" in str(function) else [(kwargs or {}).get("out")]
        self.read += sum(t.nbytes for t in tensors if all(t is not o for o in overwritten))
        self.written += sum(t.nbytes for t in out_tensors)
        return out

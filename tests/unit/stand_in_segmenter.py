"""A program that behaves as TotalSegmentator's command line does, for tests: it segments nothing.

Its options, its files and how it tells its progress are those of the real one's source
(``bin/TotalSegmentator.py``, ``nnunet.py``); weights and network are not there. What goes wrong is
chosen by ``STAND_IN``.
"""

import stat
import sys
from pathlib import Path

PYTHON = sys.executable
# A first line with the interpreter's path would break at a space in it; pip writes its programs
# so, too: the shell runs the second line, Python takes it for a text.
PROGRAM = r"""#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import argparse, json, os, signal, subprocess, sys, time
from pathlib import Path

how = os.environ.get("STAND_IN", "")
log = os.environ.get("STAND_IN_LOG", "")
if "--version" in sys.argv:
    if how == "silent":
        time.sleep(600)
    print("no version" if how == "no version" else "2.18.0")
    raise SystemExit
parser = argparse.ArgumentParser()
parser.add_argument("-i", dest="input", required=True)
parser.add_argument("-o", dest="output", required=True)
parser.add_argument("-ta", "--task", default="total", choices=["total"])
parser.add_argument("-d", "--device", default="gpu")
parser.add_argument("-nr", type=int)
parser.add_argument("-ns", type=int)
parser.add_argument("-f", "--fast", action="store_true")
parser.add_argument("-rs", "--roi_subset", nargs="+", default=[])
args = parser.parse_args()
home = Path(os.environ["TOTALSEG_HOME_DIR"])
if log:
    Path(log).write_text(json.dumps({{
        "argv": sys.argv[1:],
        "pid": os.getpid(),
        "config": json.loads((home / "config.json").read_text()),
        "weights": os.environ.get("TOTALSEG_WEIGHTS_PATH"),
        "pythonpath": os.environ.get("PYTHONPATH"),
    }}))
print("\nIf you use this tool please cite: https://pubs.rsna.org/doi/10.1148/ryai.230024\n")
print("Resampling...")
if how == "crash":
    print("Traceback (most recent call last):", file=sys.stderr)
    print("RuntimeError: the weights are damaged", file=sys.stderr)
    raise SystemExit(1)
if how == "crash with workers":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(log).write_text(json.dumps({{"pid": os.getpid(), "child": child.pid}}))
    os._exit(3)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "offline":
    print("requests.exceptions.ConnectionError: Max retries exceeded", file=sys.stderr)
    raise SystemExit(1)
if how == "gpu memory":
    print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", file=sys.stderr)
    raise SystemExit(1)
import nibabel, numpy
image = nibabel.load(args.input)
print("Predicting...")
for step in range(5):
    bar = f"\r{{20 * (step + 1):3d}}%|####      | {{step + 1}}/5 [00:0{{step}}<00:01]"
    print(bar, end="", file=sys.stderr, flush=True)
    time.sleep(0.05)
if how in ("hang", "stubborn"):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(log).write_text(json.dumps({{"pid": os.getpid(), "child": child.pid}}))
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("\nRemoving small blobs...", flush=True)
    time.sleep(600)
out = Path(args.output)
out.mkdir(exist_ok=True, parents=True)
print("\nSaving segmentations...")
written = [] if how == "nothing" else args.roi_subset[:1] if how == "one" else args.roi_subset
for number, name in enumerate(written):
    data = numpy.zeros(image.shape, numpy.uint8)
    data[4:8, 4:8, 2 + number] = 1
    nibabel.save(nibabel.Nifti1Image(data, image.affine), out / f"{{name}}.nii.gz")
print("  Saved in 0.10s")
"""


def write_program(folder: Path, name: str = "TotalSegmentator") -> Path:
    """Write the program into a folder and return it."""
    path = folder / name
    path.write_text(PROGRAM.format(python=PYTHON))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path

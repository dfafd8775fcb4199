"""Files of tests run apart from each other: what passes, fails, dies or hangs is told of each."""

import json
import os
import subprocess
import sys
from pathlib import Path

FILES = {
    "passes": "def test_one(): pass\n",
    "fails": "def test_one(): assert False, 'so it is'\n",
    "dies": "import os\ndef test_one(): os.abort()\n",
    "hangs": "import time\ndef test_one(): time.sleep(60)\n",
    "leaves": "import sys\ndef test_one(): sys.modules['left'] = sys\n",
    "looks": "import sys\ndef test_one(): assert 'left' not in sys.modules\n",
}
RUN = """
import json, sys
from pathlib import Path
from test_processes import Job, run

folder = Path(sys.argv[1])
jobs = [
    (
        file.stem,
        Job(
            arguments=("-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(file)),
            output=folder / f"{file.stem}.txt",
            timeout=8 if file.stem == "test_hangs" else 60,
            alone=file.stem == "test_dies",
        ),
    )
    for file in sorted(folder.glob("test_*.py"))
]
print(json.dumps({name: [ended.code, ended.late, ended.work > 0] for name, ended in run(jobs, 2)}))
"""


def test_each_file_ends_by_itself_and_says_how(root: Path, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        cwd=root / "scripts",
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # which take most of the time
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(done.stdout)
    assert {name.removeprefix("test_"): ended for name, ended in found.items()} == {
        "passes": [0, False, True],
        "fails": [1, False, True],
        "dies": [-6, False, True],
        "hangs": [-9, True, True],
        "leaves": [0, False, True],
        "looks": [0, False, True],
    }
    assert "so it is" in (tmp_path / "test_fails.txt").read_text()

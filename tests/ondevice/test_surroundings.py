import subprocess

from edgec.ondevice.surroundings import SCRIPT, Surroundings, Temperature, read_surroundings

TEXT = """governor schedutil
governor schedutil
governor performance
zone 41500 cpu-0-0
zone 43 cpu-1-0
zone 90000 battery
zone  broken
zone none cpu-9
zone -274000 odd
zone 0 off
zone 40000 cpu-0-0
"""


def test_governors_come_once_and_degrees_where_they_make_sense() -> None:
    found = read_surroundings(TEXT)
    assert found.governors == ("schedutil", "performance")
    assert found.zones == {"cpu-0-0": 41.5, "cpu-1-0": 43.0, "battery": 90.0}


def test_the_processors_hottest_zone_counts() -> None:
    before = Surroundings(governors=(), zones={"cpu-0": 40.0, "soc": 35.0, "battery": 60.0})
    after = Surroundings(governors=(), zones={"cpu-0": 45.0, "soc": 50.0, "battery": 60.0})
    assert Temperature.between(before, after) == Temperature(zone="soc", before=35.0, after=50.0)


def test_without_a_processors_zone_any_counts_and_without_one_none() -> None:
    one = Surroundings(governors=(), zones={"board": 30.0})
    assert Temperature.between(one, one) == Temperature(zone="board", before=30.0, after=30.0)
    nothing = read_surroundings("")
    assert Temperature.between(one, nothing) is None


def test_the_script_runs_where_sys_tells_nothing() -> None:
    script = SCRIPT.replace("/sys/", "/nowhere/")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

"""Celery on a Redis broker and result backend: tasks, a chord, retries, tasks for later, remote control, and a crash of the server between."""

import collections
import os
import subprocess
import sys
import time

address, directory = sys.argv[1:]
notes = os.path.join(directory, 'notes')
os.environ.update(SERVER=address, NOTES=notes, VISIBILITY_TIMEOUT='3600')

from celery import chord  # noqa: E402
from tasks import add, app, at, second_time, through_the_crash, total, work  # noqa: E402

PATIENCE = 60
CONCURRENCY = 2
PREFETCHED = 4


def noted(name):
    """The notes of one task, without its name."""
    with open(notes) as lines:
        return [line.split()[1:] for line in lines if line.startswith(name + ' ')]


def once(name, wanted):
    executed = collections.Counter(words[0] for words in noted(name))
    assert executed == collections.Counter(map(str, wanted)), f'{name}: executed {executed}'


def wait_until(what, reached):
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, f'{what}: not within {PATIENCE} s'
        time.sleep(0.02)


def exact():
    """Without a crash each task is executed once, and its result is its own."""
    results = [add.delay(i, i) for i in range(100)]
    later = [at.apply_async((time.time() + wait,), countdown=wait) for wait in (0.5, 1, 1.5)]
    again = [second_time.delay(i) for i in range(5)]
    assert [result.get(timeout=PATIENCE) for result in results] == [2 * i for i in range(100)]
    assert chord(add.s(i, 1000) for i in range(100, 120))(total.s()).get(timeout=PATIENCE) == sum(range(1100, 1120))
    assert [result.get(timeout=PATIENCE) for result in again] == list(range(5))
    for result in later:
        result.get(timeout=PATIENCE)
    once('add', range(120))
    once('total', [20])
    assert sorted(noted('second_time')) == sorted([str(i), str(retry)] for i in range(5) for retry in range(2))
    assert len(noted('at')) == 3 and all(float(executed) >= float(due) for due, executed in noted('at')), noted('at')


def control():
    """Remote control goes through a fan-out by publish/subscribe."""
    answers = app.control.ping(timeout=PATIENCE, limit=1)
    assert len(answers) == 1 and list(answers[0].values()) == [{'ok': 'pong'}], answers
    # A task that is revoked before it is due is never executed.
    revoked = work.apply_async((-1,), countdown=1)
    revoked.revoke()
    wait_until('it is revoked', lambda: revoked.status == 'REVOKED')


def unacknowledged():
    """How many tasks the worker has taken and not acknowledged."""
    with app.connection_for_read() as connection:
        return connection.default_channel.client.hlen('unacked')


def at_least_once(worker):
    """The server is killed, and the worker with it: what it had begun or taken is given out again to the next one, the rest is there."""
    path = os.path.join(directory, 'restarted')
    results = [through_the_crash.delay(i, path) for i in range(CONCURRENCY)]
    results += [work.delay(i) for i in range(100)]
    wait_until('the worker is at as many tasks as it can be, and has taken as many as it may',
               lambda: len(noted('through_the_crash')) == CONCURRENCY and unacknowledged() == CONCURRENCY * PREFETCHED)
    worker.kill()
    worker.wait()
    print('crash', flush=True)
    results += [work.delay(i) for i in range(100, 120)]
    sys.stdin.readline()
    assert unacknowledged() == CONCURRENCY * PREFETCHED
    with open(path, 'w'):
        pass
    # The next worker takes a task for lost that hasn't been acknowledged for a second.
    time.sleep(1.1)
    worker = start_worker(visibility_timeout=1)
    wanted = [*range(CONCURRENCY), *(i * i for i in range(120))]
    assert [result.get(timeout=PATIENCE) for result in results] == wanted
    executed = collections.Counter(words[0] for words in noted('work'))
    assert set(executed) == {str(i) for i in range(120)}, executed
    again = collections.Counter(words[0] for words in noted('through_the_crash'))
    assert len(again) == CONCURRENCY and all(count >= 2 for count in again.values()), again
    wait_until('nothing is left in the queue, nor unacknowledged', drained)
    return worker


def drained():
    with app.connection_for_read() as connection:
        return not connection.default_channel.client.exists('celery', 'unacked', 'unacked_index')


def start_worker(visibility_timeout=3600):
    return subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', sys.executable, '-m', 'celery', '-A', 'tasks', '--quiet', 'worker', '--loglevel', 'WARNING',
                             '--concurrency', str(CONCURRENCY), '--prefetch-multiplier', str(PREFETCHED)],
                            cwd=os.path.dirname(os.path.abspath(__file__)), env={**os.environ, 'VISIBILITY_TIMEOUT': str(visibility_timeout)})


def main():
    worker = start_worker()
    try:
        exact()
        control()
        worker = at_least_once(worker)
    finally:
        worker.terminate()
    assert worker.wait(PATIENCE) == 0
    print('celery: all results are right')


main()

"""RQ: jobs, results, failures, retries, dependencies and the scheduler, and a crash of the server while a job is executed."""

import collections
import datetime
import os
import signal
import subprocess
import sys
import time

address, directory = sys.argv[1:]
notes = os.path.join(directory, 'notes')
open(notes, 'w').close()
os.environ['NOTES'] = notes

import jobs  # noqa: E402
from redis import Redis  # noqa: E402
from rq import Queue, Retry  # noqa: E402
from rq.job import JobStatus  # noqa: E402
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry, StartedJobRegistry  # noqa: E402

PATIENCE = 60
LATER = 'later'
host, port = address.split(':')


def noted(name):
    """The notes of one job, without its name."""
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


def wait_for(jobs_queued, status=JobStatus.FINISHED):
    for job in jobs_queued:
        wait_until(f'{job.func_name} {job.args} is {status}', lambda: job.get_status() == status)


def without_a_crash(queue):
    squares = [queue.enqueue(jobs.square, i) for i in range(20)]
    failing = [queue.enqueue(jobs.fails, i) for i in range(3)]
    retried = [queue.enqueue(jobs.fails_once, i, retry=Retry(max=2)) for i in range(3)]
    dependent = queue.enqueue(jobs.after, 1, depends_on=squares)
    never = queue.enqueue(jobs.after, 2, depends_on=failing[0])
    later = [queue.enqueue_in(datetime.timedelta(seconds=wait), jobs.at, time.time() + wait) for wait in (1, 2)]
    wait_for(squares + retried + later + [dependent])
    wait_for(failing, JobStatus.FAILED)
    once('square', range(20))
    once('fails', range(3))
    once('fails_once', [i for i in range(3)] * 2)
    once('after', [1])
    assert [job.result for job in squares] == [i * i for i in range(20)]
    assert never.get_status() == JobStatus.DEFERRED
    failing[1].refresh()
    assert 'fails, as it should' in failing[1].exc_info
    assert set(FailedJobRegistry(queue=queue).get_job_ids()) == {job.id for job in failing}
    # A whole second is the unit of the scheduler.
    assert len(noted('at')) == 2 and all(float(executed) >= int(float(due)) for due, executed in noted('at')), noted('at')
    assert len(ScheduledJobRegistry(queue=queue)) == 0


def through_a_crash(queue, workers):
    """Nothing is asked of RQ that it doesn't promise: it says nothing of a job whose worker gets no answer, or a signal, while it takes it.
    So both workers are at a job, and what is due later is in a queue of the next worker's: the schedulers may live through the crash."""
    path = os.path.join(directory, 'restarted')
    long = [queue.enqueue(jobs.through_the_crash, path) for _ in range(2)]
    wait_until('both workers are at a job', lambda: len(noted('through_the_crash')) == 2)
    squares = [queue.enqueue(jobs.square, i) for i in range(100, 140)]
    later = Queue(LATER, connection=queue.connection).enqueue_in(datetime.timedelta(seconds=1), jobs.square, 140)
    print('crash', flush=True)
    sys.stdin.readline()
    assert [job.id for job in squares] == queue.job_ids
    with open(path, 'w'):
        pass
    wait_for(long + squares)
    for worker in workers:
        kill(worker)
    workers[:] = [start_worker(queue.name, LATER)]
    wait_for([later, queue.enqueue(jobs.after, 3)])
    once('through_the_crash', [path] * 2)
    once('square', [*range(20), *range(100, 141)])
    assert [job.result for job in long] == ['survived'] * 2
    assert len(StartedJobRegistry(queue=queue)) == 0 and queue.is_empty()
    assert {job.id for job in squares + long} <= set(FinishedJobRegistry(queue=queue).get_job_ids())


def start_worker(*queues):
    return subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', sys.executable, '-m', 'rq.cli', 'worker', '--url', f'redis://{address}',
                             '--with-scheduler', '--logging_level', 'WARNING', *queues], cwd=os.path.dirname(os.path.abspath(__file__)),
                            start_new_session=True)


def kill(worker):
    """The worker and its scheduler end at once. A worker that is asked to end waits for ever for a scheduler that it has only just
    started again: that has the worker's handler of signals still, and goes on."""
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def main():
    queue = Queue(connection=Redis(host, int(port)))
    workers = [start_worker(queue.name), start_worker(queue.name)]
    try:
        without_a_crash(queue)
        through_a_crash(queue, workers)
    finally:
        for worker in workers:
            worker.terminate()
    statuses = [worker.wait(PATIENCE) for worker in workers]
    assert statuses == [0], statuses
    print('rq: all results are right')


main()

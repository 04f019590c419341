"""The application: what `celery -A tasks worker` runs. Each task notes its execution in a file, outside of the server."""

import os
import time

from celery import Celery

server = os.environ['SERVER']
app = Celery('tasks', broker=f'redis://{server}/0', backend=f'redis://{server}/1')
app.conf.update(
    # At least once: a task is acknowledged when it is done, and given out again when its worker has not done so in time.
    task_acks_late=True,
    broker_transport_options={'visibility_timeout': int(os.environ['VISIBILITY_TIMEOUT'])},
    task_publish_retry_policy={'max_retries': 50, 'interval_start': 0.1, 'interval_step': 0.1, 'interval_max': 0.5},
)


def note(*words):
    file = os.open(os.environ['NOTES'], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (' '.join(map(str, words)) + '\n').encode())
    os.close(file)


@app.task
def add(a, b):
    note('add', a)
    return a + b


@app.task
def total(numbers):
    note('total', len(numbers))
    return sum(numbers)


@app.task
def work(number):
    note('work', number)
    return number * number


@app.task
def through_the_crash(number, path):
    """It doesn't end before the server has crashed."""
    note('through_the_crash', number)
    while not os.path.exists(path):
        time.sleep(0.01)
    return number


@app.task
def at(due):
    note('at', due, time.time())


@app.task(bind=True, max_retries=3)
def second_time(self, number):
    note('second_time', number, self.request.retries)
    if self.request.retries == 0:
        raise self.retry(countdown=0.2)
    return number

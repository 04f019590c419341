"""The application's jobs. Each notes its execution in a file, outside of the server."""

import os
import time


def note(*words):
    file = os.open(os.environ['NOTES'], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (' '.join(map(str, words)) + '\n').encode())
    os.close(file)


def square(number):
    note('square', number)
    return number * number


def fails(number):
    note('fails', number)
    raise ValueError(f'job {number} fails, as it should')


def fails_once(number):
    """It fails unless it was tried before."""
    with open(os.environ['NOTES']) as lines:
        tried = f'fails_once {number}\n' in lines
    note('fails_once', number)
    if not tried:
        raise ValueError(f'job {number} fails the first time, as it should')
    return number


def after(number):
    note('after', number)
    return number


def at(due):
    note('at', due, time.time())


def through_the_crash(path):
    """It is executed while the server goes away and comes back."""
    note('through_the_crash', path)
    while not os.path.exists(path):
        time.sleep(0.01)
    return 'survived'

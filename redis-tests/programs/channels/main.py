"""Channel layers of Django Channels on Redis: channels_redis.core (sorted sets and scripts) and channels_redis.pubsub."""

import asyncio
import sys
import time

import redis.asyncio
from channels.exceptions import ChannelFull
from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer

address = sys.argv[1]
host, port = address.split(':')
url = f'redis://{address}/0'
PATIENCE = 60


async def received(layer, channel, count):
    numbers = []
    while len(numbers) < count:
        try:
            numbers.append((await asyncio.wait_for(layer.receive(channel), PATIENCE))['number'])
        except asyncio.TimeoutError:
            raise AssertionError(f'{type(layer).__name__}: only {numbers} of {count} messages on {channel}') from None
    return numbers


async def nothing_waits(layer, channel):
    """The next message is one that is sent now."""
    await layer.send(channel, {'type': 'message', 'number': 'last'})
    assert await received(layer, channel, 1) == ['last']


async def subscribed(channels):
    """The layer on publish/subscribe doesn't wait until it has subscribed, so what is published at once may be too early."""
    client = redis.asyncio.Redis.from_url(url)
    deadline = time.monotonic() + PATIENCE
    while len(await client.pubsub_channels()) < channels:
        assert time.monotonic() < deadline, f'not {channels} channels within {PATIENCE} s'
        await asyncio.sleep(0.01)
    await client.close()


async def channels_and_groups(layer, subscriptions):
    """A message reaches its channel, or all members of a group, once and in order."""
    members = [await layer.new_channel() for _ in range(5)]
    for member in members:
        await layer.group_add('room', member)
    await subscribed(subscriptions)
    receivers = [asyncio.ensure_future(received(layer, member, 40)) for member in members]
    for number in range(40):
        await layer.group_send('room', {'type': 'message', 'number': number})
    assert await asyncio.gather(*receivers) == [list(range(40))] * 5
    await layer.group_discard('room', members[0])
    await layer.group_send('room', {'type': 'message', 'number': 40})
    assert [await received(layer, member, 1) for member in members[1:]] == [[40]] * 4
    for member in members:
        await nothing_waits(layer, member)


async def full():
    """A channel takes as many messages as it has room for."""
    small = RedisChannelLayer(hosts=[url], capacity=3)
    for number in range(3):
        await small.send('small', {'type': 'message', 'number': number})
    try:
        await small.send('small', {'type': 'message', 'number': 3})
        raise AssertionError('a full channel took a message')
    except ChannelFull:
        pass
    assert await received(small, 'small', 3) == [0, 1, 2]


async def kept(layer):
    """Messages that wait for their receiver, and groups, are there after a crash."""
    channel = await layer.new_channel()
    await layer.group_add('after', channel)
    for number in range(10):
        await layer.send('kept', {'type': 'message', 'number': number})
        await layer.group_send('after', {'type': 'message', 'number': number})
    waiting = await layer.new_channel()
    await layer.close_pools()
    print('crash', flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    assert await received(layer, 'kept', 10) == list(range(10))
    await layer.group_add('after', waiting)
    await layer.group_send('after', {'type': 'message', 'number': 10})
    assert await received(layer, channel, 11) == list(range(11))
    assert await received(layer, waiting, 1) == [10]


async def main():
    core = RedisChannelLayer(hosts=[url], capacity=1000)
    published = RedisPubSubChannelLayer(hosts=[url])
    await channels_and_groups(core, subscriptions=0)
    await channels_and_groups(published, subscriptions=6)
    await full()
    await kept(core)
    print('channels_redis: all results are right')


asyncio.run(main())

// rate-limiter-flexible and redlock: what is shared by several clients, and known after a crash of the server.
'use strict'

const assert = require('node:assert/strict')
const Redis = require('ioredis')
const Redlock = require('redlock')
const { RateLimiterRedis, BurstyRateLimiter } = require('rate-limiter-flexible')
const { address, crash, until, run, range, sleep } = require('./driver')

const clients = range(0, 4).map(() => new Redis(address).on('error', () => {})) // while the server is away

// consume asks for a point many times at once, and returns how often it was given.
async function consume (limiters, key, times) {
  const asked = await Promise.allSettled(range(0, times).map(i => limiters[i % limiters.length].consume(key)))
  for (const { reason } of asked) assert.ok(!(reason instanceof Error), reason)
  return asked.filter(({ status }) => status === 'fulfilled').length
}

// limits: however many ask at once, so many are let in.
async function limits () {
  const limiters = clients.map(storeClient => new RateLimiterRedis({ storeClient, keyPrefix: 'plain', points: 10, duration: 3600 }))
  assert.equal(await consume(limiters, 'ada', 60), 10)
  assert.equal(await consume(limiters, 'bob', 7), 7)
  const { consumedPoints, remainingPoints, msBeforeNext } = await limiters[1].get('bob')
  assert.deepEqual([consumedPoints, remainingPoints], [7, 3])
  assert.ok(msBeforeNext > 0 && msBeforeNext <= 3600_000)
  await limiters[2].penalty('bob', 2)
  await limiters[3].reward('bob', 1)
  assert.equal((await limiters[0].get('bob')).consumedPoints, 8)
  await limiters[0].delete('bob')
  assert.equal(await limiters[0].get('bob'), null)
  // A window that ends.
  const ending = clients.map(storeClient => new RateLimiterRedis({ storeClient, keyPrefix: 'ending', points: 3, duration: 3600 }))
  assert.equal(await consume(ending, 'ada', 9), 3)
  await clients[0].pexpire('ending:ada', 1)
  await until('the end of the window', async () => await ending[0].get('ada') === null)
  assert.equal(await consume(ending, 'ada', 9), 3)
  // One that is too fast has to wait.
  const blocking = clients.map(storeClient => new RateLimiterRedis({ storeClient, keyPrefix: 'blocking', points: 3, duration: 3600, blockDuration: 7200 }))
  assert.equal(await consume(blocking, 'ada', 20), 3)
  assert.ok((await blocking[0].get('ada')).msBeforeNext > 3600_000)
  // Bursts come from a second budget.
  const [storeClient] = clients
  const bursty = new BurstyRateLimiter(new RateLimiterRedis({ storeClient, keyPrefix: 'steady', points: 2, duration: 3600 }),
    new RateLimiterRedis({ storeClient, keyPrefix: 'burst', points: 5, duration: 3600 }))
  assert.equal(await consume([bursty], 'ada', 20), 7)
}

// locks: what is read, and written a moment later, isn't lost when a lock is held meanwhile.
async function locks () {
  const makers = clients.map(client => new Redlock([client], { retryCount: -1, retryDelay: 5, retryJitter: 5 }))
  let holders = 0
  await Promise.all(range(0, 40).map(async i => {
    const lock = await makers[i % makers.length].lock('lock:counter', 30_000)
    assert.equal(++holders, 1)
    const before = Number(await clients[i % 4].get('counter'))
    await sleep(2)
    await clients[i % 4].set('counter', before + 1)
    holders--
    await lock.unlock()
  }))
  assert.equal(await clients[0].get('counter'), '40')
  // Several resources at once, a lock that is extended, and one that isn't.
  const once = new Redlock([clients[0]], { retryCount: 0 })
  const pair = await once.lock(['lock:a', 'lock:b'], 30_000)
  await assert.rejects(once.lock(['lock:b', 'lock:c'], 1000), Redlock.LockError)
  const extended = await pair.extend(60_000)
  assert.ok(await clients[1].pttl('lock:b') > 30_000)
  await extended.unlock()
  const forgotten = await once.lock('lock:b', 30_000)
  await clients[1].pexpire('lock:b', 1)
  await until('the end of the lock', async () => await clients[1].exists('lock:b') === 0)
  const next = await once.lock('lock:b', 30_000)
  await assert.rejects(forgotten.unlock(), Redlock.LockError)
  await next.unlock()
}

// known: a crash forgets neither what was consumed nor who holds a lock.
async function known () {
  const limiters = clients.map(storeClient => new RateLimiterRedis({ storeClient, keyPrefix: 'known', points: 10, duration: 3600 }))
  assert.equal(await consume(limiters, 'ada', 6), 6)
  const once = new Redlock([clients[0]], { retryCount: 0 })
  const other = new Redlock([clients[1]], { retryCount: 0 })
  const lock = await once.lock('lock:known', 3600_000)
  await crash()
  await assert.rejects(other.lock('lock:known', 1000), Redlock.LockError)
  assert.equal(await consume(limiters, 'ada', 20), 4)
  await lock.unlock()
  await (await other.lock('lock:known', 1000)).unlock()
}

run('rate-limiter-flexible and redlock', limits, locks, known)

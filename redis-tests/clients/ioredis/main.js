// A little programme as a user of Kedis might write it, on the ioredis client: a session store, a leaderboard, a rate limiter without scripts,
// a stock that is sold under WATCH, and a queue in a pipeline. It takes the address of a server whose data it may remove, checks every
// result, and exits with 1 at the first that is wrong. With three files behind the address, of an authority's certificate and of a
// certificate and its key, it connects with TLS.
'use strict'

const assert = require('node:assert/strict')
const { readFileSync } = require('node:fs')
const { setTimeout: sleep } = require('node:timers/promises')
const Redis = require('ioredis')

// sessions keeps what a web application knows of its visitors: a hash for each, which goes by itself.
async function sessions (redis) {
  const results = await redis.multi()
    .hset('session:4711', { user: 'ada', items: 2 })
    .expire('session:4711', 3600)
    .exec()
  assert.deepEqual(results, [[null, 2], [null, 1]])
  assert.equal(await redis.hincrby('session:4711', 'items', 3), 5)
  assert.deepEqual(await redis.hgetall('session:4711'), { user: 'ada', items: '5' })
  const left = await redis.ttl('session:4711')
  assert.ok(left > 0 && left <= 3600, `TTL ${left}`)
  await redis.set('session:old', 'x', 'PX', 5)
  await sleep(20)
  assert.equal(await redis.get('session:old'), null)
}

// leaderboard ranks players by score.
async function leaderboard (redis) {
  for (let i = 0; i < 500; i++) {
    await redis.zadd('leaderboard', i * 10, `player${i}`)
  }
  assert.equal(await redis.zincrby('leaderboard', 10000.5, 'player7'), '10070.5')
  assert.deepEqual(await redis.zrevrange('leaderboard', 0, 1, 'WITHSCORES'), ['player7', '10070.5', 'player499', '4990'])
  assert.equal(await redis.zrevrank('leaderboard', 'player498'), 2)
  assert.deepEqual(await redis.zrange('leaderboard', '(100', '130', 'BYSCORE'), ['player11', 'player12', 'player13'])
  assert.equal(await redis.zcount('leaderboard', '-inf', '(100'), 9)
}

// rateLimiter lets a client do a thing so often within a window: a counter for each window that expires with it, without a script.
async function rateLimiter (redis) {
  let allowed = 0
  for (let i = 0; i < 25; i++) {
    const [[failure, count]] = await redis.multi().incr('limit:client9').expire('limit:client9', 3600, 'NX').exec()
    assert.equal(failure, null)
    if (count <= 10) allowed++
  }
  assert.equal(allowed, 10)
}

// stock sells more than there is to many customers at once; WATCH sees to it that nothing is sold twice.
async function stock (redis) {
  await redis.set('stock', 30)
  const customers = Array.from({ length: 8 }, () => redis.duplicate())
  await Promise.all(customers.map(async (customer, number) => {
    for (;;) {
      await customer.watch('stock')
      if (await customer.get('stock') === '0') break
      // null when another customer was faster
      await customer.multi().decr('stock').rpush('sales', number).exec()
    }
    await customer.quit()
  }))
  assert.equal(await redis.get('stock'), '0')
  assert.equal(await redis.llen('sales'), 30)
}

// queue sends a thousand commands in one pipeline and takes the work in order.
async function queue (redis) {
  const pipeline = redis.pipeline()
  for (let i = 0; i < 1000; i++) pipeline.lpush('queue', `job${i}`)
  const results = await pipeline.exec()
  assert.deepEqual(results[999], [null, 1000])
  for (let i = 0; i < 1000; i++) {
    assert.equal(await redis.lmove('queue', 'running', 'RIGHT', 'LEFT'), `job${i}`)
  }
  assert.equal(await redis.exists('queue'), 0)
}

// scan walks over keys and over a large hash with the client's streams.
async function scan (redis) {
  const pipeline = redis.pipeline()
  for (let i = 0; i < 3000; i++) pipeline.set(`scan:${i}`, i).hset('scanned-hash', `field${i}`, i)
  await pipeline.exec()
  const keys = new Set()
  for await (const batch of redis.scanStream({ match: 'scan:*', count: 100 })) batch.forEach(key => keys.add(key))
  assert.equal(keys.size, 3000)
  const fields = new Map()
  for await (const batch of redis.hscanStream('scanned-hash', { count: 50 })) {
    for (let i = 0; i < batch.length; i += 2) fields.set(batch[i], batch[i + 1])
  }
  assert.equal(fields.size, 3000)
  assert.equal(fields.get('field2999'), '2999')
}

// binary sends bytes that are no text.
async function binary (redis) {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  await redis.set('binary', bytes)
  assert.deepEqual(await redis.getBuffer('binary'), bytes)
  assert.equal(await redis.setrange('binary', 300, 'x'), 301)
  assert.equal(await redis.bitcount('binary'), 1024 + 4)
}

// refusals expects errors where Redis has them.
async function refusals (redis) {
  await redis.set('string', 'x')
  await assert.rejects(redis.lpush('string', 'y'), /^ReplyError: WRONGTYPE Operation against a key holding the wrong kind of value$/)
  await assert.rejects(redis.call('no-such-command'), /ERR unknown command/)
  const results = await redis.multi().set('fine', 1).incr('string').exec()
  assert.equal(results[0][1], 'OK')
  assert.match(results[1][0].message, /not an integer/)
  assert.equal(await redis.get('fine'), '1')
}

async function main () {
  const [host, port] = (process.argv[2] ?? '').split(':')
  assert.ok(port, 'usage: node main.js host:port [authority certificate key]')
  const [ca, cert, key] = process.argv.slice(3).map(file => readFileSync(file))
  const tls = ca && { ca, cert, key }
  const redis = new Redis({ host, port: Number(port), tls, connectionName: 'ioredis-test', retryStrategy: null })
  // Without a listener a lost connection would only be printed.
  redis.on('error', fail)
  await redis.flushall()
  for (const part of [sessions, leaderboard, rateLimiter, stock, queue, scan, binary, refusals]) {
    await part(redis).catch(error => { throw new Error(`${part.name}: ${error.message}`, { cause: error }) })
  }
  assert.equal(await redis.client('GETNAME'), 'ioredis-test')
  await redis.quit()
  console.log('ioredis: all results are right')
}

function fail (error) {
  console.error('ioredis:', error)
  process.exit(1)
}

main().catch(fail)

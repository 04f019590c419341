// Bull: jobs of many workers, delayed ones, retries, priorities and events; at least once across a crash of the server.
'use strict'

// Each job that is waited for is a listener.
require('node:events').defaultMaxListeners = 0

const assert = require('node:assert/strict')
const Queue = require('bull')
const { address, crash, insist, until, run, range, sleep, Tally } = require('./driver')

const open = (name, settings) => new Queue(name, { redis: address, settings }).on('error', () => {}) // while the server is away

// exact: without a crash each job is executed once, by one of three workers.
async function exact () {
  const workers = range(0, 3).map(() => open('exact'))
  const queue = open('exact')
  const executed = new Tally()
  const early = []
  for (const worker of workers) {
    worker.process(4, async job => {
      executed.add(job.data.number)
      if (Date.now() < (job.data.due ?? 0)) early.push(job.data.number)
      if (job.data.failures > job.attemptsMade) throw new Error('fails, as it should')
      return job.data.number * 2
    })
  }
  const jobs = await Promise.all(range(0, 200).map(number => queue.add({ number })))
  jobs.push(...await queue.addBulk(range(200, 300).map(number => ({ data: { number } }))))
  jobs.push(...await Promise.all([300, 600].map((delay, i) => queue.add({ number: 300 + i, due: Date.now() + delay }, { delay }))))
  const results = await Promise.all(jobs.map(job => job.finished()))
  assert.deepEqual(results, range(0, 302).map(number => 2 * number))
  executed.exactlyOnce(range(0, 302))
  assert.deepEqual(early, [])
  const retried = await queue.add({ number: 400, failures: 2 }, { attempts: 3, backoff: 50 })
  const failing = await queue.add({ number: 401, failures: 9 }, { attempts: 2 })
  assert.equal(await retried.finished(), 800)
  await assert.rejects(failing.finished(), /fails, as it should/)
  assert.equal(executed.get(400), 3)
  assert.equal(executed.get(401), 2)
  assert.deepEqual(await queue.getJobCounts(), { waiting: 0, active: 0, completed: 303, failed: 1, delayed: 0, paused: 0 })
  await Promise.all([queue, ...workers].map(one => one.close()))
}

// priorities: while no worker is there, jobs are put in order.
async function priorities () {
  const queue = open('priorities')
  for (const priority of [3, 1, 2, 1]) await queue.add({ priority }, { priority })
  const order = []
  queue.process(async job => { order.push(job.data.priority) })
  await until('four jobs', () => order.length === 4)
  assert.deepEqual(order, [1, 1, 2, 3])
  await queue.close()
}

// survives: the server is killed while jobs are added and executed.
async function survives () {
  const queue = open('survives')
  // Jobs whose worker lost the server are found by the next check for stalled ones.
  const worker = open('survives', { lockDuration: 1000, stalledInterval: 500, maxStalledCount: 100, retryProcessDelay: 50 })
  const executed = new Tally()
  worker.process(5, async job => {
    await sleep(5)
    executed.add(job.data.number)
  })
  // Bull doesn't wait until the server has loaded its data. A name makes an addition that is sent again the same job.
  const add = number => insist(() => queue.add({ number }, { jobId: `job${number}` }))
  await Promise.all(range(0, 200).map(add))
  await until('some jobs', () => executed.size > 20)
  const restarted = crash()
  await Promise.all(range(200, 300).map(add))
  await restarted
  await until('all jobs', () => insist(async () => (await queue.getCompletedCount()) === 300))
  executed.atLeastOnce(range(0, 300))
  assert.deepEqual(await queue.getJobCounts(), { waiting: 0, active: 0, completed: 300, failed: 0, delayed: 0, paused: 0 })
  console.log(`bull: ${executed.executions} executions of 300 jobs across the crash`)
}

run('bull', exact, priorities, survives)

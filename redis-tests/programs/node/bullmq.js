// BullMQ: jobs of many workers, events from a stream, delayed jobs, retries, priorities, flows and rate limits; at least once across a crash of
// the server.
'use strict'

// Each job that is waited for is a listener.
require('node:events').defaultMaxListeners = 0

const assert = require('node:assert/strict')
const { Queue, Worker, QueueEvents, FlowProducer } = require('bullmq')
const { address, crash, until, run, range, sleep, Tally } = require('./driver')

const connection = { ...address, maxRetriesPerRequest: null }
const settings = { connection, drainDelay: 1 }
// Jobs whose worker lost the server are found by the next check for stalled ones.
const impatient = { ...settings, lockDuration: 1000, stalledInterval: 500, maxStalledCount: 100 }
const quiet = one => one.on('error', () => {}) // while the server is away
const closeAll = (...all) => Promise.all(all.map(one => one.close()))

// exact: without a crash each job is executed once, by one of three workers, and each has its events.
async function exact () {
  const queue = new Queue('exact', { connection })
  const events = new QueueEvents('exact', { connection })
  await events.waitUntilReady()
  const completed = new Tally()
  events.on('completed', ({ returnvalue }) => completed.add(returnvalue))
  const executed = new Tally()
  const early = []
  const workers = range(0, 3).map(() => new Worker('exact', async job => {
    executed.add(job.data.number)
    if (Date.now() < (job.data.due ?? 0)) early.push(job.data.number)
    if (job.data.failures > job.attemptsMade) throw new Error('fails, as it should')
    return job.data.number
  }, { ...settings, concurrency: 4 }))
  const jobs = await queue.addBulk(range(0, 300).map(number => ({ name: 'job', data: { number } })))
  jobs.push(...await Promise.all([300, 600].map((delay, i) => queue.add('later', { number: 300 + i, due: Date.now() + delay }, { delay }))))
  const results = await Promise.all(jobs.map(job => job.waitUntilFinished(events)))
  assert.deepEqual(results, range(0, 302))
  executed.exactlyOnce(range(0, 302))
  await until('all events', () => completed.size === 302)
  completed.exactlyOnce(range(0, 302))
  assert.deepEqual(early, [])
  const retried = await queue.add('retried', { number: 400, failures: 2 }, { attempts: 3, backoff: 50 })
  const failing = await queue.add('failing', { number: 401, failures: 9 }, { attempts: 2 })
  assert.equal(await retried.waitUntilFinished(events), 400)
  await assert.rejects(failing.waitUntilFinished(events), /fails, as it should/)
  assert.deepEqual([executed.get(400), executed.get(401)], [3, 2])
  const counts = await queue.getJobCounts('wait', 'active', 'completed', 'failed', 'delayed')
  assert.deepEqual(counts, { wait: 0, active: 0, completed: 303, failed: 1, delayed: 0 })
  await closeAll(...workers, events, queue)
}

// priorities: while no worker is there, jobs are put in order.
async function priorities () {
  const queue = new Queue('priorities', { connection })
  for (const priority of [3, 1, 2, 1]) await queue.add('job', { priority }, { priority })
  const order = []
  const worker = new Worker('priorities', async job => { order.push(job.data.priority) }, settings)
  await until('four jobs', () => order.length === 4)
  assert.deepEqual(order, [1, 1, 2, 3])
  await closeAll(worker, queue)
}

// flows: a parent is executed after its children, and has their results.
async function flows () {
  const flow = new FlowProducer({ connection })
  let total
  const children = new Worker('children', async job => job.data.number, settings)
  const parent = new Worker('parents', async job => {
    total = Object.values(await job.getChildrenValues()).reduce((sum, value) => sum + value, 0)
  }, settings)
  await flow.add({ name: 'sum', queueName: 'parents', children: range(1, 11).map(number => ({ name: 'part', queueName: 'children', data: { number } })) })
  await until('the parent', () => total !== undefined)
  assert.equal(total, 55)
  await closeAll(children, parent, flow)
}

// limited: two workers share a limit, and go on when it is lifted.
async function limited () {
  const queue = new Queue('limited', { connection })
  let executed = 0
  const limits = { ...settings, concurrency: 5, limiter: { max: 5, duration: 3600_000 } }
  await queue.addBulk(range(0, 10).map(number => ({ name: 'job', data: { number } })))
  const work = () => range(0, 2).map(() => new Worker('limited', async () => { executed++ }, limits))
  const workers = work()
  await until('five jobs', () => executed === 5)
  await sleep(200)
  assert.equal(executed, 5)
  assert.ok(await queue.getRateLimitTtl(5) > 0)
  await closeAll(...workers)
  await queue.removeRateLimitKey()
  // Those that were told to wait would look again within half a minute.
  workers.splice(0, 2, ...work())
  await until('ten jobs', () => executed === 10)
  await closeAll(...workers, queue)
}

// survives: the server is killed while jobs are added and executed.
async function survives () {
  const queue = quiet(new Queue('survives', { connection }))
  const executed = new Tally()
  const worker = quiet(new Worker('survives', async job => {
    await sleep(5)
    executed.add(job.data.number)
  }, { ...impatient, concurrency: 5 }))
  // A name makes an addition that is sent again the same job.
  const add = number => queue.add('job', { number }, { jobId: `job${number}` })
  await Promise.all(range(0, 200).map(add))
  await until('some jobs', () => executed.size > 20)
  const restarted = crash()
  await Promise.all(range(200, 300).map(add))
  await restarted
  await until('all jobs', async () => (await queue.getCompletedCount()) === 300)
  executed.atLeastOnce(range(0, 300))
  const counts = await queue.getJobCounts('wait', 'active', 'failed', 'delayed')
  assert.deepEqual(counts, { wait: 0, active: 0, failed: 0, delayed: 0 })
  console.log(`bullmq: ${executed.executions} executions of 300 jobs across the crash`)
  await worker.close()
}

run('bullmq', exact, priorities, flows, limited, survives)

// bee-queue: jobs of many workers, delayed ones, retries, progress; at least once across a crash of the server.
'use strict'

const assert = require('node:assert/strict')
const Queue = require('bee-queue')
const { address, crash, until, run, range, sleep, Tally } = require('./driver')

const options = { redis: { ...address, retry_strategy: () => 50 }, activateDelayedJobs: true, stallInterval: 500, nearTermWindow: 1000, delayedDebounce: 50 }
const open = async name => {
  const queue = new Queue(name, options).on('error', () => {}) // while the server is away
  await queue.ready()
  return queue
}
const finished = job => new Promise((resolve, reject) => job.on('succeeded', resolve).on('failed', reject))

// exact: without a crash each job is executed once, by one of three workers.
async function exact () {
  const workers = await Promise.all(range(0, 3).map(() => open('exact')))
  const queue = await open('exact')
  const executed = new Tally()
  const early = []
  for (const worker of workers) {
    worker.process(4, async job => {
      executed.add(job.data.number)
      if (Date.now() < (job.data.due ?? 0)) early.push(job.data.number)
      job.reportProgress(50)
      if (executed.get(job.data.number) <= job.data.failures) throw new Error('fails, as it should')
      return job.data.number * 2
    })
  }
  const jobs = range(0, 200).map(number => queue.createJob({ number }))
  for (const delay of [300, 600]) {
    const due = Date.now() + delay
    jobs.push(queue.createJob({ number: jobs.length, due }).delayUntil(due))
  }
  const results = jobs.map(finished)
  await Promise.all(jobs.map(job => job.save()))
  assert.deepEqual(await Promise.all(results), range(0, 202).map(number => 2 * number))
  executed.exactlyOnce(range(0, 202))
  assert.deepEqual(early, [])
  const retried = queue.createJob({ number: 400, failures: 2 }).retries(2)
  const failing = queue.createJob({ number: 401, failures: 9 }).retries(1)
  const ends = Promise.allSettled([finished(retried), finished(failing)])
  await Promise.all([retried.save(), failing.save()])
  const [succeeded, failed] = await ends
  assert.deepEqual([succeeded.value, failed.reason?.message], [800, 'fails, as it should'])
  assert.deepEqual([executed.get(400), executed.get(401)], [3, 2])
  const health = await queue.checkHealth()
  assert.deepEqual([health.waiting, health.active, health.succeeded, health.failed, health.delayed], [0, 0, 203, 1, 0])
  await Promise.all([queue, ...workers].map(one => one.close()))
}

// survives: the server is killed while jobs are executed. What its worker can't finish stalls, and is given out again.
async function survives () {
  const queue = await open('survives')
  const worker = await open('survives')
  const executed = new Tally()
  worker.process(5, async job => {
    await sleep(5)
    executed.add(job.data.number)
  })
  const save = number => queue.createJob({ number }).setId(`job${number}`).save()
  await Promise.all(range(0, 200).map(save))
  await until('some jobs', () => executed.size > 20)
  await crash()
  // A queue loads its scripts when it is opened. The server forgets them, so one that was open needs another to be opened.
  await open('survives')
  await Promise.all(range(200, 250).map(save))
  worker.checkStalledJobs(500)
  await until('all jobs', () => executed.size === 250)
  executed.atLeastOnce(range(0, 250))
  console.log(`bee-queue: ${executed.executions} executions of 250 jobs across the crash`)
}

run('bee-queue', exact, survives)

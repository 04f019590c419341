// What the drivers share: the address of the server, the crash, and checks.
'use strict'

const assert = require('node:assert/strict')
const readline = require('node:readline')
const { setTimeout: sleep } = require('node:timers/promises')

const [host, port] = (process.argv[2] ?? '').split(':')
assert.ok(port, 'usage: node DRIVER.js host:port')
const address = { host, port: Number(port) }
const patience = 60_000

// crash has the server killed and started again, and ends when it serves.
async function crash () {
  const lines = readline.createInterface({ input: process.stdin })
  const answered = new Promise(resolve => lines.once('line', resolve))
  console.log('crash')
  await answered
  lines.close()
}

// until waits for a condition.
async function until (what, reached) {
  for (const deadline = Date.now() + patience; !await reached();) {
    assert.ok(Date.now() < deadline, `${what}: not within ${patience} ms`)
    await sleep(10)
  }
}

// insist repeats what fails while the server loads its data.
async function insist (act) {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (!error.message.includes('LOADING')) throw error
      await sleep(20)
    }
  }
}

// run runs the parts of a driver, and ends the process: some libraries keep timers.
function run (name, ...parts) {
  const all = async () => {
    for (const part of parts) {
      await part().catch(error => { throw new Error(`${part.name}: ${error.message}`, { cause: error }) })
    }
  }
  all().then(() => {
    console.log(`${name}: all results are right`)
    process.exit(0)
  }, error => {
    console.error(error)
    process.exit(1)
  })
}

// range holds the numbers from first up to last, without it.
const range = (first, last) => Array.from({ length: last - first }, (_, i) => first + i)

// Tally counts executions by number.
class Tally extends Map {
  add (number) { this.set(number, (this.get(number) ?? 0) + 1) }
  exactlyOnce (numbers) { assert.deepEqual([...this].sort(([a], [b]) => a - b), numbers.map(number => [number, 1])) }
  atLeastOnce (numbers) { assert.deepEqual([...this.keys()].sort((a, b) => a - b), numbers) }
  get executions () { return [...this.values()].reduce((sum, count) => sum + count, 0) }
}

module.exports = { address, crash, insist, until, run, range, sleep, Tally }
